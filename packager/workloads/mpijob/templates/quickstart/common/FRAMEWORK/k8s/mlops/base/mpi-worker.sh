#!/bin/sh
# A worker: an ssh server, for nobody but the launcher of the same job, as whichever user the pod runs.
set -eu
run=/run/mlpack

# For mpi-session.sh: what the container has in its environment, sshd does not pass on.
export -p >"$run/environment"

PATH=$PATH:/usr/local/sbin:/usr/sbin
ssh-keygen -q -t ed25519 -N '' -f "$run/host_key"
cat >"$run/sshd_config" <<END
Port 2222
HostKey $run/host_key
PidFile none
AuthorizedKeysFile /etc/mlpack/ssh/authorized_keys
# The operator's key file belongs to root, and its folder to the pod's group.
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
ForceCommand /bin/sh /etc/mlpack/runtime/mpi-session.sh
# A launcher of many ranks opens all its connections at once.
MaxStartups 512
MaxSessions 512
END
if [ "$(id -u)" = 0 ]; then
  mkdir -p /run/sshd # where sshd locks its unprivileged half in, when there is one
fi
echo "$(hostname): ready for the launcher"
exec "$(command -v sshd)" -De -f "$run/sshd_config"

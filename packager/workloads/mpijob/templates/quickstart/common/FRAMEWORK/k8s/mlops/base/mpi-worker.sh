#!/bin/sh
# A worker: an ssh server, for nobody but the launcher of the same job, as whichever user the pod runs.
set -eu
run=/run/mlpack session=/etc/mlpack/runtime/mpi-session.sh

# stop: end the ranks, which have the time of this pod, and then sshd. mpirun's daemon reports how the ranks have ended,
# so this waits for all that sshd has started, which has SSH_CONNECTION in its environment.
# shellcheck disable=SC2329 # the trap below calls it
stop() {
  [ "$server" ] || exit 143
  if SSH_ORIGINAL_COMMAND=stop /bin/sh $session; then
    while grep -qsz '^SSH_CONNECTION=' /proc/[0-9]*/environ; do
      sleep 0.5
    done
  fi
  kill -TERM "$server" 2>/dev/null || :
}

# As process 1 a shell ignores signals that it has no handler for.
server=''
trap stop TERM INT

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
ForceCommand /bin/sh $session
# A launcher of many ranks opens all its connections at once.
MaxStartups 512
MaxSessions 512
END
if [ "$(id -u)" = 0 ]; then
  mkdir -p /run/sshd # where sshd locks its unprivileged half in, when there is one
fi
echo "$(hostname): ready for the launcher"
# sshd starts itself again for each connection, by its path.
"$(command -v sshd)" -De -f "$run/sshd_config" &
server=$!
# A signal interrupts `wait`.
while :; do
  status=0
  wait "$server" || status=$?
  kill -0 "$server" 2>/dev/null || exit "$status"
done

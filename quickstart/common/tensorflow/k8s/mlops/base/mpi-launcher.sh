#!/bin/sh
# The launcher: starts the ranks on the workers with mpirun, which reaches each worker by mpi-ssh.sh.
#
# Usage: mpi-launcher.sh openmpi|mpich|intel PROCESSES|all COMMAND [ARGUMENT ...]
set -eu
implementation=$1 processes=$2
shift 2
run=/run/mlpack hostfile=/etc/mpi/hostfile agent=/etc/mlpack/runtime/mpi-ssh.sh

# stop: end the ranks. mpirun would kill them a second after SIGTERM, and a checkpoint takes longer. So the workers send
# it, the ranks have the time of this pod, and mpirun ends with them. Where no worker has ranks, mpirun is told.
# shellcheck disable=SC2329 # the trap below calls it
stop() {
  : "${mpirun:=${!-}}" # the signal may come between the start of mpirun and the next line
  [ "$mpirun" ] || exit 143
  stopped=yes told='' asked=''
  for host in $hosts; do
    [ -e "$run/reached-$host" ] || continue
    ssh -F "$run/ssh_config" -E "$run/stopped.log" "$host" stop >/dev/null &
    asked="$asked $!"
  done
  for session in $asked; do
    ! wait "$session" || told=yes
  done
  # Until it is `alive`, mpirun is a copy of this shell with its trap, and a signal to it would be lost.
  tries=50
  until [ "$told" ] || [ -e "$run/alive" ] || [ "$tries" -le 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
  done
  [ "$told" ] || kill -TERM "$mpirun" 2>/dev/null || :
}

# As process 1 a shell ignores signals that it has no handler for, and `kubectl delete` would wait half a minute.
mpirun='' stopped=''
rm -f "$run/alive" # of an earlier container of this pod
trap stop TERM INT

# ssh refuses a key that others may read, which is what the operator's mount looks like to some users.
(umask 077 && cp /etc/mlpack/ssh/id_rsa "$run/key")
cat >"$run/ssh_config" <<END
Host *
  Port 2222
  IdentityFile $run/key
  IdentitiesOnly yes
  BatchMode yes
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  ConnectTimeout 5
  ServerAliveInterval 15
  LogLevel ERROR
END

# A line is "host slots=2" or "host:2": the operator's form follows the implementation.
hosts='' workers=0 slots=0
while read -r line; do
  hosts="$hosts ${line%%[ :]*}"
  workers=$((workers + 1))
  slots=$((slots + ${line##*[=:]}))
done <"$hostfile"
[ "$processes" != all ] || processes=$slots

# mlops.env, one file a key: each goes to every rank, also one that somebody added. MPICH's launchers take a list.
names=''
for file in /etc/mlpack/env/*; do
  name=${file##*/}
  names=${names:+$names,}$name
  [ "$implementation" != openmpi ] || set -- -x "$name" "$@"
done

echo "starting $processes ranks on $workers workers"
case $implementation in
openmpi)
  # Open MPI 4 reads the first of each pair, 5 the second. Without a tree every worker is reached from here: workers
  # have no key to reach each other. The operator sets options for an ssh of its own, which retries more slowly.
  export OMPI_MCA_plm_rsh_agent="$agent" PRTE_MCA_plm_ssh_agent="$agent"
  export OMPI_MCA_plm_rsh_no_tree_spawn=1 PRTE_MCA_plm_ssh_no_tree_spawn=1
  unset OMPI_MCA_plm_rsh_args PRTE_MCA_plm_ssh_args
  # Daemons start ranks in threads (4: 32 and more, 5: all), and miss the end of a rank that is quicker than the thread
  # that notes its process id: mpirun then waits for ever (openpmix/prrte#1839). Without threads none is missed.
  export OMPI_MCA_odls_base_num_threads=0 PRTE_MCA_odls_base_max_threads=0
  if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  # Open MPI 5 does not see the host file that the operator names in the environment. Nothing is bound to cores: pods
  # share their node, and each would take the same first cores.
  set -- mpirun --hostfile "$hostfile" -np "$processes" --bind-to none "$@"
  ;;
mpich)
  export HYDRA_LAUNCHER_EXEC="$agent"
  # Workers call the launcher back, by an address rather than a name that they may not resolve yet.
  set -- mpirun -localhost "$(hostname -i)" -f "$hostfile" -n "$processes" -genvlist "$names" "$@"
  ;;
intel)
  export I_MPI_HYDRA_BOOTSTRAP=ssh I_MPI_HYDRA_BOOTSTRAP_EXEC="$agent" I_MPI_PIN=off
  # Here they call it back by name, and the name is there only some time after the launcher is.
  for host in $hosts; do
    until "$agent" "$host" "getent hosts $(hostname)" >/dev/null; do
      sleep 0.2
    done
  done
  set -- mpiexec.hydra -f "$hostfile" -n "$processes" -genvlist "$names" "$@"
  ;;
*)
  echo "mpi-launcher.sh: expected openmpi, mpich or intel, found '$implementation'" >&2
  exit 2
  ;;
esac

{
  : >"$run/alive"
  exec "$@"
} &
: "${mpirun:=$!}"
# A signal interrupts `wait` while mpirun still ends its ranks.
while :; do
  status=0
  wait "$mpirun" || status=$?
  kill -0 "$mpirun" 2>/dev/null || break
done
[ -z "$stopped" ] || exit "$((status ? status : 143))" # ranks that end with 0 when they are told to have not finished

# had_ranks HOST: whether HOST still is the worker that ranks ran on. It is asked again, for half a minute, where it
# cannot be reached: a network or a name service that stumbles just now takes nothing from what was trained. What it
# says is in $run/answer.
had_ranks() {
  tries=0
  while :; do
    answer=0
    ssh -F "$run/ssh_config" -E "$run/ended.log" "$1" joined >"$run/answer" || answer=$?
    tries=$((tries + 1))
    [ "$answer" -eq 255 ] && [ "$tries" -lt 15 ] || return "$answer"
    sleep 2
  done
}

# Open MPI 5 may end with 0 when a worker was taken away with its ranks. A worker that the operator has made in its
# place answers, but has had no ranks. And a rank may end with 0 though the kernel has killed what it had started: once
# the operator has stopped the workers, nobody else knows of that.
if [ "$status" -eq 0 ]; then
  killed='' count=0
  for host in $hosts; do
    # With fewer processes than slots some workers may have none.
    [ -e "$run/reached-$host" ] || continue
    if ! had_ranks "$host"; then
      tail -n 1 "$run/ended.log" >&2
      echo "mpi-launcher.sh: $host was lost on the way: what mpirun calls a success is none" >&2
      status=1
    elif [ "$(tail -n 1 "$run/answer")" = killed ]; then
      count=$((count + 1))
      [ "$count" -gt 20 ] || killed="$killed ${host%%.*}"
    fi
  done
  [ "$count" -le 20 ] || killed="$killed, and $((count - 20)) more"
  if [ "$count" -gt 0 ]; then
    killed="processes were killed for taking more memory than their worker may, in:$killed"
    echo "mpi-launcher.sh: $killed" >&2
    # The pod's status keeps it when its log is gone. Of a failure, the kubelet puts the end of the log there.
    [ "$status" -ne 0 ] || { echo "$killed" >/dev/termination-log; } 2>/dev/null || :
  fi
fi
exit "$status"

#!/bin/sh
# What mpirun calls for ssh: tries until the worker answers, and says whom it waits for. mpirun can so start before the
# workers do, where it would otherwise give up at the first that is not up yet.
#
# Usage: mpi-ssh.sh [SSH OPTION ...] HOST COMMAND [ARGUMENT ...]
set -u
run=/run/mlpack
log=$(mktemp "$run/ssh.XXXXXX")
tries=0
while :; do
  status=0
  ssh -F "$run/ssh_config" -E "$log" -o PermitLocalCommand=yes \
    -o LocalCommand="touch $log.connected $run/reached-%n" "$@" || status=$?
  # 255 is ssh's own failure; but once it was connected, what ran there may have begun and is not to begin twice.
  if [ "$status" -ne 255 ] || [ -e "$log.connected" ]; then
    break
  fi
  tries=$((tries + 1))
  if [ $((tries % 50)) -eq 0 ]; then
    echo "waiting: $(tail -n 1 "$log")" >&2
    : >"$log"
  fi
  sleep 0.1
done
[ "$status" -eq 0 ] || cat "$log" >&2
rm -f "$log" "$log.connected"
exit "$status"

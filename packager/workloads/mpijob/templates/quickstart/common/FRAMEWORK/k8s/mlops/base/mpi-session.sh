#!/bin/sh
# What sshd runs for each connection: the command it was asked for, in the environment of the worker's container.
# Without this a rank would miss all that the image and the pod set: PATH, LD_LIBRARY_PATH, what a device plugin adds.
set -eu
joined=/run/mlpack/joined stopped=/run/mlpack/stopped

# How many processes of this container the kernel has killed for memory, where it says so: cgroup version 2, then 1.
# Read without a program of its own, for which there may be no memory left.
kills=unknown
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ -r "$file" ] || continue
  while read -r key value; do
    [ "$key" != oom_kill ] || kills=$value
  done <"$file"
done

# The launcher asks in the end whether this is still the worker that it started ranks on, and not one in its place; and
# it is told when a process was killed since then. Ranks that were told to stop, and end with 0, have not finished.
if [ "${SSH_ORIGINAL_COMMAND:-}" = joined ]; then
  [ -e $joined ] && [ ! -e $stopped ] || exit 1
  read -r before <$joined || before=$kills
  [ "$kills" = "$before" ] || echo killed
  exit 0
fi

# The launcher or this worker is told to end: the ranks, with what they have started, get SIGTERM, once. Open MPI and the
# descendants of MPICH number their ranks in the environment. It fails where there are none.
if [ "${SSH_ORIGINAL_COMMAND:-}" = stop ]; then
  for process in /proc/[0-9]*; do
    ! grep -qz '^OMPI_COMM_WORLD_RANK=\|^PMI_RANK=' "$process/environ" 2>/dev/null || set -- "$@" "${process##*/}"
  done
  [ $# -gt 0 ] || exit 1
  ! mkdir $stopped 2>/dev/null || kill -TERM "$@" 2>/dev/null || :
  exit 0
fi
rmdir $stopped 2>/dev/null || : # these were ranks of an earlier launcher
echo "$kills" >$joined
# shellcheck source=/dev/null
. /run/mlpack/environment
exec /bin/sh -c "${SSH_ORIGINAL_COMMAND:-exec /bin/sh}"

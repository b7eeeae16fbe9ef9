#!/bin/sh
# One line for each rank, then a real MPI program.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}}
printf 'rank %s on %s as %s:%s with [%s]\n' "$rank" "$(hostname)" "$(id -u)" "$(id -g)" "$GREETING"
exec /usr/local/bin/mpi-program

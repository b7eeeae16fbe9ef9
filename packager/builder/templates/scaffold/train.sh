#!/bin/sh
# Runs in each process: the only one of a Pod, or each rank of an MPIJob.
set -eu
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-1}}
step=1
while [ "$step" -le "${STEPS:-3}" ]; do
  echo "rank $rank of $size on $(hostname): step $step of ${STEPS:-3}"
  step=$((step + 1))
done
if [ "$rank" = 0 ]; then
  echo "done" >"$OUTPUT_DIR/result.txt"
fi

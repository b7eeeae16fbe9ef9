#!/bin/sh
# Says, as one process or as a rank: who it is, what it finds, and what it may write. Leaves its name in OUTPUT_DIR.
set -eu
rank=${OMPI_COMM_WORLD_RANK:-0}

say() {
  echo "rank $rank: $*"
}

say "uid $(id -u), gid $(id -g), host $(hostname)"
say "shared memory of $(df -k /dev/shm | awk 'NR == 2 { print $2 }') KiB"
say "found in output: $(cat "$OUTPUT_DIR"/left-by-* 2>/dev/null | sort | tr '\n' ' ')"
say "found in dataset: $(cat "$DATASET_DIR/data" 2>/dev/null)"
say "output is of type $(awk -v folder="$OUTPUT_DIR" '$2 == folder { print $3, "from", $1 }' /proc/mounts)"
if refused=$(touch "$DATASET_DIR/mine" 2>&1); then
  say "may write into the dataset"
else
  say "may not write into the dataset: $refused"
fi
hostname >"$OUTPUT_DIR/left-by-$(hostname)"

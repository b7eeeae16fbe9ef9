#!/usr/bin/env bash
# Train ResNet-50 v1.5 in BF16: by itself on one process, or as the program that mpirun starts for each rank.
# train.py --help lists the keys of mlops.env that it reads.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# -B: this folder is a read-only ConfigMap, no place for bytecode.
exec python3 -B "$here/train.py" --precision bf16 "$@"

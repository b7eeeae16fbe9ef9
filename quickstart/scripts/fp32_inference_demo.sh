#!/usr/bin/env bash
# Measure ResNet-50 v1.5 inference in FP32 on one process, with the checkpoint in OUTPUT_DIR where there is one.
# infer.py --help lists the keys of mlops.env that it reads.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# -B: this folder is a read-only ConfigMap, no place for bytecode.
exec python3 -B "$here/infer.py" "$@"

#!/usr/bin/env bash
# Serve ResNet-50 v1.5 in FP32 over HTTP, with the checkpoint in DATASET_DIR where there is one, or in OUTPUT_DIR.
# serve.py --help lists the keys of mlops.env that it reads.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# -B: this folder is a read-only ConfigMap, no place for bytecode.
exec python3 -B "$here/serve.py" "$@"

#!/bin/sh
# Installs the Python packages of a requirements file for the program of the pod, as the pod's user, into the folder
# PYTHONPATH of mlops.env. Then it runs what the model does before the program, if there is something.
#
# Usage: requirements.sh FILE [COMMAND...]    FILE is below quickstart/scripts
#
# pip itself reads PIP_INDEX_URL and PIP_FIND_LINKS of mlops.env, and looks in the folders `wheels` of the code and of the
# assets. It installs exactly what FILE lists, and only files with the digests in it. Nothing is built: a package without
# a file for this Python fails.
set -eu
file=$MODEL_DIR/quickstart/scripts/$1
shift
folder=${PYTHONPATH%%:*}

installed=$folder/.mlpack-requirements
wanted=$(python3 - "$file" <<'END'
import hashlib, sys
with open(sys.argv[1], "rb") as stream:
    print(hashlib.sha256(stream.read() + sys.version.encode()).hexdigest())
END
)
# A container that is started again finds what it has installed.
if [ ! -e "$installed" ] || [ "$(cat "$installed")" != "$wanted" ]; then
  for wheels in "$MODEL_DIR/quickstart/scripts/wheels" "$MODEL_DIR/assets/wheels"; do
    [ ! -d "$wheels" ] || PIP_FIND_LINKS="$wheels ${PIP_FIND_LINKS-}"
  done
  export PIP_FIND_LINKS
  python3 -m pip install --quiet --no-input --disable-pip-version-check --no-cache-dir --upgrade \
    --target "$folder" --require-hashes --no-deps --only-binary :all: --requirement "$file"
  echo "$wanted" >"$installed"
fi
[ $# = 0 ] || exec "$@"

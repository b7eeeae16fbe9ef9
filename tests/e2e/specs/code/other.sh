#!/bin/sh
# Says what it was started with, and where. `say` is in a file that is sourced: no program of its own.
set -eu
# shellcheck source=/dev/null
if [ -e tools/utils.sh ]; then . ./tools/utils.sh; else . ./utils.sh; fi
say "${0##*/}" "$#" "$*"

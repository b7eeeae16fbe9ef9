#!/bin/sh
# Says the same as the others, and then serves nobody until it is told to stop.
set -eu
# shellcheck source=/dev/null
. ./utils.sh
say "${0##*/}" "$#" "$*"
touch /tmp/ready
trap 'exit 0' TERM
sleep 300 &
wait

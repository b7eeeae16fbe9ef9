#!/bin/sh
# What sshd runs for each connection: the command it was asked for, in the environment of the worker's container.
# Without this a rank would miss all that the image and the pod set: PATH, LD_LIBRARY_PATH, what a device plugin adds.
set -eu
# The launcher asks in the end whether this is still the worker that it started ranks on, and not one in its place.
joined=/run/mlpack/joined
[ "${SSH_ORIGINAL_COMMAND:-}" != joined ] || exec test -e $joined
: >$joined
# shellcheck source=/dev/null
. /run/mlpack/environment
exec /bin/sh -c "${SSH_ORIGINAL_COMMAND:-exec /bin/sh}"

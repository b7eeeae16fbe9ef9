#!/bin/sh
# Fails as a training script does: with a reason on its last line.
echo "the learning rate is not a number" >&2
exit 3

#!/bin/sh
# Says that it has begun, and works for ten minutes.
echo "rank ${OMPI_COMM_WORLD_RANK:-0} works"
exec sleep 600

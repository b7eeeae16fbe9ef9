#!/usr/bin/env bash
# Say who this rank is and what it sees of mlops.env: the half-minute check of a cluster.
set -euo pipefail

# Open MPI; MPICH and Intel MPI; no MPI at all.
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
size=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-1}}
host=$(hostname)
uid=$(id -u)
gid=$(id -g)

text="rank $rank of $size: host $host, uid $uid, gid $gid"$'\n'

# The folder has a file for each key of mlops.env, but the values come from the environment: this is a test of
# whether they have arrived on this rank. A key that is no shell identifier cannot be asked for as ${!key}.
shopt -s nullglob
seen=0
for file in "${MLPACK_ENV_DIR:-/nonexistent}"/*; do
    key=${file##*/}
    if value=$(printenv -- "$key"); then
        printf -v line '%s=%q' "$key" "$value"
        seen=$((seen + 1))
    else
        line="$key has not arrived"
    fi
    text+="rank $rank: $line"$'\n'
done

if [[ $rank == 0 ]]; then
    text+="{\"model\": \"hello-mpi\", \"ranks\": $size, \"host\": \"$host\", \"uid\": $uid, \"gid\": $gid, \"keys\": $seen}"$'\n'
fi

# With one write, so that the texts of the ranks do not mix: bash itself would write line by line.
cat <<<"${text%$'\n'}"

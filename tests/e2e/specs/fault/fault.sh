#!/usr/bin/env bash
# Fail, or take its time, in the way that FAULT names.
set -euo pipefail
rank=${OMPI_COMM_WORLD_RANK:-0}

# fails_alone: rank 0 goes on. The first rank to fail takes the others down, perhaps before they have said a word.
fails_alone() {
    [[ $rank -eq 0 ]] || exit 0
}

write_results() {
    echo "rank $rank: writes"
    mkdir -p "$OUTPUT_DIR/deep"
    echo "by rank $rank" >"$OUTPUT_DIR/rank-$rank.txt"
    head -c 300000 /dev/urandom >"$OUTPUT_DIR/deep/rank-$rank.bin"
    ln -sf /etc/passwd "$OUTPUT_DIR/link-out"
    echo "rank $rank: wrote"
}

case $FAULT in
none)
    echo "rank $rank: done"
    ;;
threads)
    echo "rank $rank: started by a process of $(ls "/proc/$PPID/task" | wc -l) threads"
    ;;
exit:*)
    fails_alone
    echo "rank $rank: this script ends with ${FAULT#exit:}"
    exit "${FAULT#exit:}"
    ;;
memory)
    echo "rank $rank: takes all the memory there is"
    tail /dev/zero
    ;;
flaky:*)
    fails_alone
    # A worker outlives the launcher's attempts, and its OUTPUT_DIR with it.
    echo x >>"$OUTPUT_DIR/attempts"
    attempt=$(wc -l <"$OUTPUT_DIR/attempts")
    echo "rank $rank: attempt $attempt"
    [[ $attempt -gt ${FAULT#flaky:} ]]
    ;;
sleep:*)
    echo "rank $rank: sleeps"
    # In the background: a shell that waits for a child in the foreground hears no signal before the child ends.
    sleep "${FAULT#sleep:}" &
    trap 'kill $!' TERM
    wait $!
    echo "rank $rank: slept"
    ;;
results)
    write_results
    ;;
results-until-told)
    write_results
    until [[ -e $OUTPUT_DIR/enough ]]; do sleep 0.2; done
    ;;
*)
    echo "FAULT=$FAULT: not one of none, threads, exit:N, memory, flaky:N, sleep:N, results, results-until-told" >&2
    exit 2
    ;;
esac

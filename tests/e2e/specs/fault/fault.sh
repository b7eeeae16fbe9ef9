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
checkpoint:*)
    # Ends well when it is told to stop, as a program does that saves what it has.
    echo "rank $rank: sleeps"
    sleep "${FAULT#checkpoint:}" &
    trap 'kill $!; echo "rank $rank: saved"; exit 0' TERM
    wait $!
    echo "rank $rank: slept"
    ;;
child-memory)
    # The kernel kills the child, which takes the memory; the rank goes on without it.
    tail /dev/zero || echo "rank $rank: its child has ended with $?"
    ;;
results)
    write_results
    ;;
results-until-told)
    write_results
    until [[ -e $OUTPUT_DIR/enough ]]; do sleep 0.2; done
    ;;
progress)
    # As tqdm does it, 302 lines; and bytes that are no text, in a last line without an end.
    for step in $(seq 302); do
        printf 'step %s:  50%%\rstep %s: 100%%\r\n' "$step" "$step"
    done
    printf '\033[2J\377\0no end'
    sleep 2
    ;;
*)
    words="none, exit:N, memory, flaky:N, sleep:N, checkpoint:N, child-memory, results, results-until-told"
    echo "FAULT=$FAULT: not one of $words, progress" >&2
    exit 2
    ;;
esac

#!/bin/sh
# torchrun of a node of which others may leave and come back, for the option elastic: with ELASTIC_MIN to PET_NNODES
# nodes. Node 0 has the store by which they find each other. It is told so: torchrun would look its own name up, which
# the name service does not know yet when the pod starts (pytorch/pytorch#73656).
#
# When node 0 leaves, torchrun fails on the others. That is no failure of theirs: they wait until the store of its new pod
# answers, and start torchrun again.
#
# Usage: torchrun.sh ARGUMENT ...
set -eu
is_host=false
[ "$PET_NODE_RANK" != 0 ] || is_host=true
unset PET_NODE_RANK # the nodes agree on their ranks
export PET_NNODES="$ELASTIC_MIN:$PET_NNODES" PET_RDZV_BACKEND=c10d PET_RDZV_ID="$JOBSET_NAME"
export PET_RDZV_ENDPOINT="$PET_MASTER_ADDR:$PET_MASTER_PORT"
export PET_RDZV_CONF="is_host=$is_host,read_timeout=300"
# Processes that start again would find what the earlier ones wrote in the same store (pytorch/pytorch#135712).
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
[ $is_host = false ] || exec torchrun "$@"
exec python3 - "$@" <<'END'
import os, signal, socket, subprocess, sys, time

STORE = os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])
PATIENCE = 300  # seconds
STOPPING = {signal.SIGTERM, signal.SIGINT}
EVENTS = STOPPING | {signal.SIGCHLD}


def address(patience):
    """Return the address of node 0 when its store answers; None if it does not in so many seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            with socket.create_connection(STORE, 5) as connection:
                return connection.getpeername()[0]
        except OSError:
            if time.monotonic() >= end:
                return None
        time.sleep(1)


def unblock():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, EVENTS)


for number in STOPPING:
    signal.signal(number, lambda number, _frame: sys.exit(128 + number))
while node_0 := address(PATIENCE):
    # Blocked, so that a signal just before a wait ends that wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, EVENTS)
    torchrun = subprocess.Popen(["torchrun", *sys.argv[1:]], stdin=subprocess.DEVNULL, preexec_fn=unblock)
    stops = False
    while torchrun.poll() is None:
        number = signal.sigwait(EVENTS)
        if number in STOPPING:
            stops = True
            torchrun.send_signal(number)  # it ends its processes
    code = torchrun.returncode
    if code == 0 or stops:
        sys.exit(128 - code if code < 0 else code)  # still blocked: a signal now does not make a failure of it
    unblock()
    if address(0) == node_0:
        sys.exit(128 - code if code < 0 else code)
    print("torchrun.sh: node 0 has left: waiting for its new pod", file=sys.stderr, flush=True)
sys.exit(f"torchrun.sh: node 0 does not answer at {STORE[0]}:{STORE[1]} within {PATIENCE} s")
END

#!/bin/sh
# Runs the program of a pod that works with others, and fails if the program ends well and has never been connected to
# one of them: then it has worked alone, whatever the overlay says of its number. Connections of torchrun itself, and
# attempts to connect, do not count. Python with several processes on a node is started by torchrun.
#
# Usage: meet.sh all|followers|none COMMAND...    which pods have to have connected: all, each to any other one; or all but
# the first one, to it
set -eu
pods=$1
shift
case "${1##*/} $*" in
*" -m torch.distributed."* | *" -m accelerate."* | *" -m deepspeed."*) ;; # it starts the processes itself
python\ * | python[0-9]*)
  case ${PET_NPROC_PER_NODE-1} in
  1) ;;
  *)
    if ! command -v torchrun >/dev/null; then
      echo "meet.sh: $PET_NPROC_PER_NODE processes on a node need torchrun, which the image does not have" >&2
      exit 1
    fi
    set -- torchrun --no_python "$@"
    ;;
  esac
  ;;
esac
# With the option elastic, a node may be the only one.
if [ "$pods" = none ] || [ "$pods-${JOB_COMPLETION_INDEX-0}" = followers-0 ] || [ -n "${ELASTIC_MIN-}" ]; then
  exec "$@"
fi
for python in python3 python; do
  ! command -v "$python" >/dev/null || break
done
if ! command -v "$python" >/dev/null || [ ! -r /proc/net/tcp ]; then
  echo "meet.sh: it is not checked whether the pods meet: there is no Python, or no /proc/net/tcp" >&2
  exec "$@"
fi
exec "$python" - "$pods" "$@" <<'END'
import glob, os, signal, socket, subprocess, sys, threading, time

PODS, PROGRAM, SET = sys.argv[1], sys.argv[2:], os.environ["JOBSET_NAME"]
FIRST = [os.environ.get(name) for name in ("PET_MASTER_ADDR", "JAX_COORDINATOR_ADDRESS", "DMLC_TRACKER_URI")]
PEER = next(filter(None, FIRST), SET).partition(":")[0] if PODS == "followers" else SET
# include/net/tcp_states.h: SYN_SENT, SYN_RECV, CLOSE, LISTEN, NEW_SYN_RECV
NOT_CONNECTED = {"02", "03", "07", "0A", "0C"}
peers = set()


def is_torchrun(words):
    return any(os.path.basename(word) == b"torchrun" for word in words[:2]) or b"torch.distributed.run" in words[:4]


launchers = {"program"} if is_torchrun([os.fsencode(word) for word in PROGRAM]) else set()


def look_up():
    """Collect the addresses of the pods: the name service has those of pods that run."""
    try:
        peers.update(found[4][0] for found in socket.getaddrinfo(PEER, None))
    except OSError:
        pass


def look_up_again():
    while True:
        look_up()
        time.sleep(2)


def address(text):
    raw = bytes.fromhex(text)
    raw = b"".join(raw[index : index + 4][::-1] for index in range(0, len(raw), 4))
    if len(raw) == 16 and raw.startswith(bytes(10) + b"\xff\xff"):
        raw = raw[12:]
    return socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)


def sockets_of_programs():
    """Return the sockets of all processes but torchrun's own; 0 stands for those that a process has closed.

    Where torchrun starts the processes, a closed one may be its own.
    """
    inodes = set()
    for process in glob.glob("/proc/[0-9]*"):
        try:
            with open(process + "/cmdline", "rb") as stream:
                words = stream.read().split(b"\0")
            if is_torchrun(words):
                launchers.add(process)
                continue
            links = [os.readlink(link) for link in glob.glob(process + "/fd/*")]
        except OSError:
            continue
        inodes.update(link[8:-1] for link in links if link.startswith("socket:["))
    return inodes if launchers else inodes | {"0"}


def is_connected():
    inodes = None
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as stream:
                rows = [line.split() for line in stream][1:]
        except OSError:
            continue
        for row in rows:
            local, remote = (address(row[column].partition(":")[0]) for column in (1, 2))
            if row[3] not in NOT_CONNECTED and remote in peers and remote != local:
                inodes = sockets_of_programs() if inodes is None else inodes
                if row[9] in inodes:
                    return True
    return False


def restore():
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and the program would, too
        signal.signal(number, signal.SIG_DFL)


try:
    program = subprocess.Popen(PROGRAM, stdin=subprocess.DEVNULL, preexec_fn=restore)
except OSError as error:
    sys.exit(f"meet.sh: {PROGRAM[0]}: {error.strerror}")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _frame: program.send_signal(number))
threading.Thread(target=look_up_again, daemon=True).start()
started, has_met = time.monotonic(), False
while program.poll() is None and not has_met:
    has_met = is_connected()
    time.sleep(0.05 if time.monotonic() - started < 60 else 0.5)
code = program.wait()
if not code and not has_met:
    look_up()
    has_met = is_connected()  # the sockets of a program that has just ended are still listed
if code or has_met:
    os._exit(128 - code if code < 0 else code)
found = "" if peers else f", and the name service does not know {PEER}"
missed = PEER if PEER != SET else f"another pod of {SET}"
print(
    f"meet.sh: the program has ended without a connection to {missed}: it has worked alone{found}. It has to use"
    " what the environment says of the others; checks_world: false in the spec turns this check off.",
    file=sys.stderr,
    flush=True,
)
os._exit(1)
END

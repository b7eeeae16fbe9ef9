"""The node of the cluster: separate mount, network, PID, UTS and IPC namespaces, like a second machine.

All parts of the cluster (processes, mounts, bridge, pods' network namespaces, sockets) are in these namespaces, and
the kernel removes all of them when process 1 of the node ends for any reason. The machine itself has only one process
`unshare`, whose id and start time are in the run folder; one network link; one control group; and files in the run
folder. `config/node.sh` sets the node up from the inside.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import control_groups, link
from tests.testbed.builds import BUILDS
from tests.testbed.errors import ToolError
from tests.testbed.places import IMAGE_VOLUMES, RUN, SOURCES

ADDRESS = "10.244.0.1"
"""The node's address among the pods. Nobody outside the node sees it, so it is the same in every cluster, and the
files in `config/` name it too."""

API_PORT = 443
"""The API server's port: that of the Service `kubernetes`, whose address the node has too (`config/node.sh`)."""

_PIDFILE = RUN / "node.pid"
_ADDRESSFILE = RUN / "address"
_LOG = RUN / "node.log"

_ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOGC=400")
"""All that its processes get: with a proxy of the machine's, say, they would not find each other. An API server that is
asked for much spends a fifth of its time on collecting garbage, when Go does so at its usual pace."""


@dataclass(frozen=True)
class Node:
    """A running node.

    Attributes:
        pid: The process id of its `unshare` on the machine.
    """

    pid: int

    @property
    def root(self) -> Path:
        """The path of the node's file system on the machine."""
        return Path(f"/proc/{self.pid}/root")

    def enter(self, *argv: str) -> list[str]:
        """Return the command that runs `argv` on the node."""
        pids = f"--pid=/proc/{self.pid}/ns/pid_for_children"  # unshare itself stays outside of the PID namespace
        nsenter = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--uts", "--ipc", pids, "--"]
        return [*nsenter, "env", "--ignore-environment", *_ENVIRONMENT, *argv]

    def processes(self) -> Iterator[tuple[int, list[str]]]:
        """Yield all processes on the node, with those of pods: the process id on the machine, and the arguments."""
        namespace = Path(f"/proc/{self.pid}/ns/pid_for_children").readlink()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and (entry / "ns" / "pid").readlink() == namespace:
                    yield int(entry.name), (entry / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")

    def listens(self, port: int) -> bool:
        """Return whether a process on the node listens on a port (the tables of proc_net(5))."""
        for table, state in (("tcp", "0A"), ("tcp6", "0A"), ("udp", "07")):
            with suppress(OSError):
                for line in Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]:
                    _, local, _, current, *_ = line.split()
                    if current == state and int(local.rpartition(":")[2], 16) == port:
                        return True
        return False


def find() -> Node | None:
    """Return this checkout's node, if it runs and is complete; else None."""
    pid = _recorded_pid()
    return Node(pid) if pid and _ADDRESSFILE.exists() and link.exists() else None


def address() -> str:
    """Return the node's address for the machine."""
    return _ADDRESSFILE.read_text()


def create() -> Node:
    """Start the node, and link it to the machine."""
    for folder in ("credentials", "run", "var"):
        (RUN / folder).mkdir(parents=True)
    shutil.copytree(SOURCES / "config", RUN / "config")  # edits during the start apply to the next node
    if IMAGE_VOLUMES:
        shutil.copytree(SOURCES / "imagevolumes", RUN / "config", dirs_exist_ok=True)
    control_groups.create()
    # The shell records its id and start time, and then executes unshare, so that no node runs unrecorded.
    record = 'echo $$ $(cut -d " " -f 22 /proc/$$/stat) >"$0" && exec unshare "$@"'
    namespaces = ["--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    layout = [RUN / "config" / "node.sh", RUN, *(build.entry for build in BUILDS)]
    with _LOG.open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", record, _PIDFILE, *namespaces, "sh", *layout],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,  # Ctrl-C must interrupt this process, not the node
        )
    node = Node(process.pid)
    while not (node.root / "run" / "ready").exists():
        if process.poll() is not None:
            raise ToolError(f"the node does not start:\n{_LOG.read_text()}")
        time.sleep(0.02)
    _ADDRESSFILE.write_text(link.create(node.pid, node.enter))
    return node


def destroy() -> None:
    """End the node, and remove its link, control group and files, also those of a crashed node."""
    pid = _recorded_pid()
    if pid:
        remaining = [pid, *(child for child, _ in Node(pid).processes())]
        os.kill(pid, signal.SIGKILL)  # its child goes with it, and with that one, as process 1, all of the node
        while any(_started(child) for child in remaining):
            time.sleep(0.02)
    link.remove()
    control_groups.remove()


def _recorded_pid() -> int | None:
    """Return the process recorded in the run folder; None if it has ended, even if another process has its id."""
    with suppress(OSError, ValueError):
        pid, started = map(int, _PIDFILE.read_text().split())
        if _started(pid) == started:
            return pid
    return None


def _started(pid: int) -> int | None:
    """Return the start of a process in ticks since the machine's start; None if it has ended, reaped or not."""
    with suppress(OSError):
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if state not in "XZ":
            return int(fields[18])
    return None

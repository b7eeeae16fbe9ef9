"""Copies code into running pods and starts their programs again, with kubectl exec, a shell and tar alone.

The pods are those of `packager.cluster.supervisor`. One command in each pod reads requests from its input until the
session ends: to start kubectl for each change would take longer than everything else. It keeps a second session out,
and ends with the connection, so that nothing is left of a session that was killed.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, TimedOutError, UnreachableError
from packager.cluster.shell import pod_end
from packager.cluster.supervisor import STATE, code_folder, is_supervised
from packager.kubernetes.kubectl.messages import FORBIDDEN
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import at, mapping
from packager.kubernetes.objects import is_being_deleted, is_running, main_container, name, uid
from packager.package import tarheader
from packager.package.path_checks import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from packager.base.process import Running
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

STOP_SECONDS = 10
"""Seconds from SIGTERM until a program is killed."""

ANSWER_SECONDS = 60.0
"""Seconds after which a pod that does not answer a request is given up."""

_ANSWER_BYTES = 64 << 10

_READY, _DONE, _OTHER, _TAKEN = "ready", "done", "other", "taken"

# A session that has just ended may still have the lock. What a program has started, and left, is killed too: it may
# hold the port of the next one. `sleep` of some images accepts whole seconds only.
_SCRIPT = f"""LC_ALL=C; export LC_ALL; set -f
mark=$1 owner=$2 supervised=$3 folder=$4 state={STATE}
answer() {{ printf '%s %s\n' "$mark" "$*"; }}
pause() {{ sleep 0.05 2>/dev/null || sleep 1; }}
stop() {{
  until read -r program 2>/dev/null <"$state/program"; do
    [ -e "$state/program" ] || return 0
    pause
  done
  : >"$state/stopping"
  kill -TERM "$program" 2>/dev/null
  read -r begun rest </proc/uptime
  while [ -e "$state/program" ]; do
    read -r now rest </proc/uptime
    [ "$((${{now%%.*}} - ${{begun%%.*}}))" -lt {STOP_SECONDS} ] || kill -KILL "-$program" "$program" 2>/dev/null
    pause
  done
  kill -KILL "-$program" 2>/dev/null
  return 0
}}
put() {{
  [ -z "$supervised" ] || stop
  [ -n "$folder" ] || return 0
  cd "$folder" || return 1
  set +f
  rm -rf ./* ./.[!.]* ./..?*
  set -f
  head -c "$1" | tar -xf - -C .
}}
start() {{
  [ -n "$supervised" ] || return 0
  rm -f "$state/begun"
  echo "$1" >"$state/code" && : >"$state/started" && echo >"$state/go" || return 1
  until [ -e "$state/begun" ]; do
    pause
  done
}}
[ -z "$supervised" ] || [ -p "$state/go" ] || {{ answer {_OTHER}; exit 0; }}
mkdir -p "$state"
tries=40
until mkdir "$state/lock" 2>/dev/null; do
  ! read -r session 2>/dev/null <"$state/lock/session" || kill -0 "$session" 2>/dev/null || rm -rf "$state/lock"
  tries=$((tries - 1))
  [ "$tries" -gt 0 ] || {{ read -r other <"$state/lock/owner"; answer {_TAKEN} "$other"; exit 0; }}
  pause
done
trap 'rm -rf "$state/lock"' EXIT
trap 'exit 1' HUP TERM INT PIPE
echo "$owner" >"$state/lock/owner"
echo "$$" >"$state/lock/session"
code=none
read -r code 2>/dev/null <"$state/code"
answer {_READY} "$code"
while read -r verb argument; do
  words=''
  case $verb in
  put) words=$(put "$argument" 2>&1) || {{ answer failed $words; continue; }} ;;
  start) words=$(start "$argument" 2>&1) || {{ answer failed $words; continue; }} ;;
  esac
  answer {_DONE}
done
"""


@dataclass(frozen=True, slots=True)
class DevPod:
    """A running pod whose program can be started again.

    Attributes:
        name: The pod's name.
        uid: The pod's uid.
        container: The name of its main container.
        folder: The folder that the code is copied to; None if it has no code.
        is_supervised: Whether its program is started by the script; it is not where another pod starts it.
    """

    name: str
    uid: str
    container: str
    folder: str | None
    is_supervised: bool


def dev_pod(pod: Object) -> DevPod | None:
    """Return a pod as one of a session; None if it does not run, or was not changed by `supervisor`."""
    container = mapping(at(pod, ("spec", "containers", 0)))
    folder = code_folder(container)
    if not is_running(pod) or is_being_deleted(pod) or not (folder or is_supervised(container)):
        return None
    return DevPod(name(pod), uid(pod), main_container(pod), folder, is_supervised(container))


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a model's code, by their paths below the folder of the code."""

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The digest of the names and contents."""
        parts = (f"{hashlib.sha256(content).hexdigest()} {path}\n" for path, content in sorted(self.files.items()))
        return hashlib.sha256("".join(parts).encode(errors="surrogateescape")).hexdigest()

    def changes(self, earlier: Code) -> list[str]:
        """Return the paths that are new, changed or no longer exist."""
        paths = sorted({*self.files, *earlier.files})
        return [path for path in paths if self.files.get(path) != earlier.files.get(path)]

    def archive(self, moment: datetime) -> bytes:
        """Return the files as a tar; all have the time `moment`, by which Python finds compiled code to be old."""
        archive = bytearray()
        for path, content in sorted(self.files.items()):
            archive += tarheader.of_file(path, len(content), 0o755, int(moment.timestamp()))
            archive += content + bytes(-len(content) % tarheader.BLOCK)
        return bytes(archive + bytes(2 * tarheader.BLOCK))


class LostError(Exception):
    """The connection to a pod has ended. Attribute: reason, the error that explains it."""

    def __init__(self, reason: ClusterError) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass
class PodSession:
    """The open connection to a pod.

    Attributes:
        kubectl: The user's kubectl.
        pod: The pod.
        code: The digest of the code that the pod's program was started with, or `none`.
    """

    kubectl: Kubectl
    pod: DevPod
    _running: Running
    _mark: bytes
    code: str = "none"
    _buffer: bytearray = field(default_factory=bytearray)

    def put(self, archive: bytes) -> None:
        """Request that the pod's program is stopped and its code replaced by `archive`; `wait` waits for it."""
        if self.pod.folder is None:
            archive = b""
        self._running.feed([f"put {len(archive)}\n".encode(), archive])

    def start(self, digest: str) -> None:
        """Request that the pod's program is started, with the code of this digest; `wait` waits for it."""
        self._running.feed([f"start {digest}\n".encode()])

    def look(self) -> None:
        """Request an answer, to learn whether the connection still exists; `wait` waits for it."""
        self._running.feed([b"look\n"])

    def wait(self) -> None:
        """Wait for the answer to the last request.

        Raises:
            ClusterError: The request has failed.
            LostError: The connection has ended.
            TimedOutError: The pod does not answer.
        """
        word, _, detail = self._answer().partition(" ")
        if word != _DONE:
            message = f"pod/{self.pod.name}: its code cannot be replaced: {shown(detail)}"
            raise ClusterError(message, hint="the image needs sh, head and tar" if "not found" in detail else None)

    def open(self) -> None:
        """Wait until the connection exists, and no other session has one.

        Raises:
            ClusterError: Another session has the pod, no command can be run in it, or it is not one of `supervisor`.
            LostError, TimedOutError: See `wait`.
        """
        word, _, detail = self._answer().partition(" ")
        if word == _TAKEN:
            raise ClusterError(
                f"pod/{self.pod.name} is used by {shown(detail)}; nothing was changed", hint="end that session first"
            )
        if word == _OTHER:
            raise ClusterError(f"pod/{self.pod.name} was not deployed by `mlpack dev`; it was left unchanged")
        self.code = detail

    def _answer(self) -> str:
        """Return the next answer, without the mark."""
        while True:
            line, end, rest = bytes(self._buffer).partition(b"\n")
            if end:
                self._buffer[:] = rest
                if line.startswith(self._mark):
                    return line.removeprefix(self._mark).decode(errors="replace").strip()
                continue
            chunk = self._running.stdout.read1(_ANSWER_BYTES)
            if not chunk or len(self._buffer) > _ANSWER_BYTES:
                raise self._lost()
            self._buffer += chunk

    def _lost(self) -> Exception:
        self._running.close_input()
        stderr = self._running.give_up().stderr
        answer = " ".join(stderr.split())[:1000]
        error = error_from(stderr)
        if not isinstance(error, UnreachableError) and (error.hint or FORBIDDEN.search(answer)):
            return ClusterError(f"no command can be run in pod/{self.pod.name}: {error}", hint=error.hint)
        why = pod_end(self.kubectl, self.pod.name) or answer.removeprefix("error: ") or "the connection ended"
        return LostError(ClusterError(f"pod/{self.pod.name}: {why}"))


@contextmanager
def connected(kubectl: Kubectl, pod: DevPod, owner: str) -> Iterator[PodSession]:
    """Give a connection to a pod, which has to be opened; it ends with the block.

    Args:
        kubectl: The user's kubectl.
        pod: The pod.
        owner: The user and the machine, for the message of another session.
    """
    mark = secrets.token_hex(16)
    script = ["sh", "-c", _SCRIPT, "sh", mark, owner, "yes" if pod.is_supervised else "", pod.folder or ""]
    command = ["exec", "--stdin", pod.name, f"--container={pod.container}", "--", *script]

    def idle(seconds: float) -> None:
        if seconds >= ANSWER_SECONDS:
            raise TimedOutError(f"pod/{pod.name} did not answer for {seconds:g} s", hint="kubectl get nodes")

    with kubectl.start(*command, idle=idle, keep_stdin_open=True) as running:
        yield PodSession(kubectl, pod, running, mark.encode())


def counted(pods: Sequence[object]) -> str:
    """Return the number of pods in words."""
    return f"{len(pods)} pod{'' if len(pods) == 1 else 's'}"

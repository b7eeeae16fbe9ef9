"""Copies a folder from a running container: tar packs it in the container, `packager.cluster.receive` unpacks it."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, cast

from packager.base.errors import ClusterError, MlpackError, TimedOutError, UnreachableError, VerificationError
from packager.cluster.receive import receive
from packager.cluster.tarmessages import Remarks, parse_remarks
from packager.kubernetes.kubectl.messages import FORBIDDEN
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.objects import is_being_deleted, status
from packager.kubernetes.pods import failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.base.process import Finished
    from packager.cluster.receive import Received
    from packager.kubernetes.kubectl.client import Kubectl

QUIET_SECONDS = 8.0
"""Seconds without data after which the silence is reported."""

_CHUNK = 1 << 18

PACK_COMMAND = (
    "sh",
    "-c",
    (
        'own="--exclude=.mlpack-*"; tar "$own" -c -f /dev/null /dev/null 2>/dev/null || own=; '
        'LC_ALL=C tar -c -f - ${own:+"$own"} -C "$1" .; code=$?; '
        'printf "%s %s\\n" "$0" "$code"; read -r released; exit "$code"'
    ),
)
"""The command in the container, without its last two arguments, the mark and the folder.

When a program in a container ends, unread output may be lost, and kubectl still ends with 0
(kubernetes/kubernetes#60140). So this command waits until the mark, which follows the archive, has arrived.

Files of mlpack in the folder, such as the packages of `requirements`, are left out if the image's tar can do so.
"""

# More bytes than tar uses to fill its last record: a program that writes more after the end does not write a tar.
_TAIL = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder of a running container."""

    pod: str
    container: str
    path: str


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy.

    Attributes:
        received: The files that arrived.
        remarks: The messages of tar.
        busy: The folders in which files changed meanwhile.
        unchanged: The number of files that were there already, with the same digests.
        unchecked: The reason why the digests of the files were not compared; None if they were.
    """

    received: Received
    remarks: Remarks
    busy: tuple[str, ...] = ()
    unchanged: int = 0
    unchecked: str | None = None


class CopyInterruptedError(ClusterError):
    """The connection broke off during a copy.

    Args:
        why: The reason.
    """

    def __init__(self, why: str) -> None:
        super().__init__(f"the copy was interrupted: {why}", hint="run it again; the files copied so far are kept")
        self.why = why


def copy(  # noqa: PLR0913 - two of them say how long to wait, and what the user sees
    kubectl: Kubectl,
    place: RemoteFolder,
    folder: Path,
    *,
    patience: float,
    tell: Callable[[str], object],
    digests: dict[str, bytes] | None = None,
) -> Copied:
    """Copy a folder of a container into a local one, which is created if it is missing.

    Args:
        kubectl: The user's kubectl.
        place: The folder to copy.
        folder: The local folder.
        patience: Seconds without data after which the copy is given up; 0 for never.
        tell: Called with a message when no data arrives.
        digests: Receives the SHA-256 of each file that arrives; None for no digests.

    Raises:
        ClusterError: The container has no such folder or no tar.
        CopyInterruptedError: The connection broke off.
        TimedOutError: No data arrived for `patience` seconds.
        VerificationError: The received data is not a tar archive.
        OSError: `folder` cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mark = secrets.token_hex(16)
    arguments = ["exec", "--stdin", place.pod, f"--container={place.container}", "--", *PACK_COMMAND, mark, place.path]
    with kubectl.start(*arguments, idle=_idle_limit(place, patience, tell), keep_stdin_open=True) as running:
        tar = Marked(running.stdout, mark)
        try:
            received, damage = receive(cast("IO[bytes]", tar), folder, record=digests), None
        except VerificationError as error:
            received, damage = None, error
        left = _TAIL
        while chunk := tar.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise damage or VerificationError(f"data after the end of the archive from {place.pod}")
        running.release()
        done = running.wait()
    remarks = parse_remarks(done.stderr, place.path)
    if received is None or tar.code is None or (tar.code != 0 and not _is_partial(tar.code, remarks)):
        if tar.code == 0 and damage:
            raise damage
        raise _copy_error(kubectl, place, done, remarks)
    busy = tuple(path for path in remarks.changed if _is_folder(folder, path))
    changed = tuple(path for path in remarks.changed if path not in busy)
    unread = (*remarks.unread, *received.orphans)
    return Copied(received, replace(remarks, changed=changed, unread=unread), busy)


class Marked:
    """A stream that ends with a mark and an exit code; the code is None until they have arrived."""

    def __init__(self, stream: IO[bytes], mark: str) -> None:
        self.code: int | None = None
        self._stream = stream
        self._end = re.compile(rb"%b (\d{1,3})\n\Z" % mark.encode())
        self._longest = len(mark) + len(" 255\n")
        self._buffer = bytearray()
        self._is_open = True

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        while self._is_open and len(self._buffer) <= self._longest:
            chunk = self._stream.read1(_CHUNK)  # type: ignore[attr-defined]
            self._buffer += chunk
            self._is_open = bool(chunk)
            if end := self._end.search(self._buffer, max(0, len(self._buffer) - self._longest)):
                self.code, self._is_open = int(end[1]), False
                del self._buffer[end.start() :]
        size = min(size, len(self._buffer) - (self._longest if self._is_open else 0))
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data


def _is_folder(folder: Path, path: str) -> bool:
    try:
        return (folder / path).is_dir()
    except OSError:
        return False


def _idle_limit(place: RemoteFolder, patience: float, tell: Callable[[str], object]) -> Callable[[float], None]:
    last = 0.0

    def idle(seconds: float) -> None:
        nonlocal last
        if patience and seconds >= patience:
            message = f"no data received from pod/{place.pod} for {seconds:g} s"
            raise TimedOutError(message, hint="kubectl get nodes; run it again: the files copied so far are kept")
        if seconds >= QUIET_SECONDS and not last >= QUIET_SECONDS:
            until = f" until it is {patience:g} s" if patience else ""
            tell(f"no data received from pod/{place.pod} for {seconds:g} s; waiting{until}")
        last = seconds

    return idle


def _is_partial(returncode: int, remarks: Remarks) -> bool:
    """Whether tar's exit code, 1 or 2, has no other cause than the files in its messages."""
    named = not remarks.is_complete or remarks.left_out
    return returncode in (1, 2) and bool(named) and not (remarks.others or remarks.folder)


def _copy_error(kubectl: Kubectl, place: RemoteFolder, done: Finished, remarks: Remarks) -> ClusterError:
    """Return the error that explains why a copy broke off."""
    words = " ".join((" ".join(remarks.others) or done.stderr).split())
    if missing := re.search(r'exec: "(\S+)": executable file not found|\b(tar): (?:command )?not found', words):
        program = missing[1] or missing[2]
        message = f"the image of {place.container} has no {program}, which is needed for copying"
        return ClusterError(message, hint=f"add {program} to the image")
    if remarks.folder == "No such file or directory":
        return ClusterError(
            f"{place.path} does not exist yet", hint="check with mlpack logs whether the work has started"
        )
    if remarks.folder:
        hint = "check the pod's user: kubectl exec POD -- id"
        return ClusterError(f"{place.path} cannot be read: {remarks.folder}", hint=hint)
    error = error_from(done.stderr)
    if not isinstance(error, UnreachableError) and (error.hint or FORBIDDEN.search(words)):
        return ClusterError(f"the copy was interrupted: {error}", hint=error.hint)
    why = pod_end(kubectl, place.pod) or _end_message(done, words)
    return CopyInterruptedError(why)


def _end_message(done: Finished, words: str) -> str:
    """Return the reason for the end of kubectl or tar, for a message."""
    if done.returncode < 0:
        return f"kubectl was ended by signal {-done.returncode}"
    if "tar: short read" in words:
        return "a file shrank while it was read, and the tar of this image stops then"
    if done.returncode == 0:
        return "the connection ended before the archive did"
    return words or f"tar ended with exit code {done.returncode}"


def pod_end(kubectl: Kubectl, pod_name: str) -> str | None:
    """Return the state of a pod in a sentence if it explains why no data arrives; None if it does not."""
    try:
        pod = kubectl.get(f"pods/{pod_name}")
    except MlpackError:
        return None
    if pod is None:
        return f"pod/{pod_name} was deleted"
    if finding := failure(pod):
        return str(finding)
    if is_being_deleted(pod):
        return f"pod/{pod_name} is being deleted"
    if status(pod).get("phase") == "Succeeded":
        return f"pod/{pod_name} has ended"
    return None

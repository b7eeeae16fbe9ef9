"""Reads the complete log of a container: each byte once, across lost connections and restarts.

Tests: cluster/test_logs.py.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, KubeletError, MlpackError, UnreachableError
from packager.cluster.loglines import LogPosition, pieces
from packager.kubernetes.kubectl.messages import NO_POD, NO_PREVIOUS_CONTAINER, NOT_STARTED
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.objects import container_statuses, main_container, moment, name
from packager.kubernetes.pods import LAST_LINES, last_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from packager.cluster.loglines import Piece
    from packager.cluster.podwatch import KeptLog
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.verdict import Finding

PATIENCE = 10.0
"""Seconds without data after which a kubelet counts as not answering."""

_LAST_BYTES = 256 << 10

# The messages of a kubelet in place of a log that it cannot read (pkg/kubelet/kuberuntime).
_KUBELET_ERROR = re.compile(rb"unable to retrieve container logs|failed to (try resolving|open log|create fs|watch)")

# The interval in which a kubelet checks the sizes of logs (containerLogMonitorInterval).
_ROTATION = timedelta(seconds=10)

# The size at which a kubelet begins a new file for a log (containerLogMaxSize); kubectl reads only the newest file.
_MOST_KEPT = 10 << 20


def with_log_end(kubectl: Kubectl, finding: Finding) -> Finding:
    """Return the finding with the end of the container's log if the pod's status did not contain it."""
    if finding.log or not finding.container:
        return finding
    pod = finding.subject.removeprefix("pod/")
    arguments = ("logs", pod, f"--container={finding.container}", f"--tail={LAST_LINES}")
    log = b""
    try:
        with kubectl.start(*arguments, idle=_idle_limit(finding.subject, PATIENCE)) as running:
            while chunk := running.stdout.read1(_LAST_BYTES):
                log = (log + chunk)[-_LAST_BYTES:]
            is_read = running.wait().returncode == 0
    except MlpackError:
        return finding
    return replace(finding, log=last_lines(log.decode(errors="replace"))) if is_read else finding


@dataclass(frozen=True, slots=True)
class LogRange:
    """The part of a container's log that is read, and its form.

    Attributes:
        tail: The number of last lines, of those that were written before the first read; None for all.
        since: The earliest time; None for the first line.
        has_times: Whether each line begins with its time.
        is_previous: Whether only the log before the last restart of the container is read.
    """

    tail: int | None = None
    since: datetime | None = None
    has_times: bool = False
    is_previous: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the log is read from its first line."""
        return self.tail is None and self.since is None and not self.is_previous


WHOLE = LogRange()


class LogReader:
    """Reads the log of one container, each time from the position reached before.

    The log is polled, not streamed, so that a lost connection breaks nothing, and any number of logs can be followed
    in turn.

    Args:
        kubectl: The user's kubectl.
        pod: The pod.
        container: The container's name; None for the pod's main container.
        part: The part of the log to read.

    Attributes:
        shown: The pod's name for kubectl.
        begin: The time of the first line that was read; empty before the first line.
        late: The time from the container's start to the first line, if the container writes so fast that a kubelet has
            deleted earlier lines since then: it keeps 10 MiB by default, and does not report deleted lines. Else None.
        gaps: The number of places where lines may have been deleted before they were read.
        is_gone: Whether the pod no longer exists.
        is_complete: Whether the log of a container that has ended was read to its end.
        may_miss_all: Whether an empty log may have had lines, since the container has run long enough for a rotation.
    """

    def __init__(self, kubectl: Kubectl, pod: Object, container: str | None = None, part: LogRange = WHOLE) -> None:
        self.shown = f"pod/{name(pod)}"
        self.begin = b""
        self.late: timedelta | None = None
        self.gaps = 0
        self.is_gone = False
        self.is_complete = False
        self.may_miss_all = False
        self._kubectl = kubectl
        self._pod = name(pod)
        self._container = container or main_container(pod)
        self._position = LogPosition()
        self._bytes, self._end = 0, b""
        self._restarts = 0
        self._part = part
        self._tail = part.tail
        self._since = part.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode() if part.since else b""

    def read(self, pod: Object, *, patience: float = PATIENCE) -> Iterator[bytes]:
        """Yield the new bytes in lines or parts of lines; none while the container has not started.

        Args:
            pod: The current state of the pod.
            patience: Seconds without data after which the kubelet counts as not answering.

        Raises:
            UnreachableError: The cluster or the pod's kubelet does not answer; bytes before that were yielded.
            ClusterError: The cluster refuses to return the log.
        """
        status = next((entry for entry in container_statuses(pod) if entry["name"] == self._container), None)
        if status is None or ("waiting" in status["state"] and not status.get("restartCount")):
            self._tail = None  # all of its lines will be new
            return
        restarts = status.get("restartCount", 0)
        if self._part.is_previous or self._tail is not None:
            self._restarts = restarts
        if restarts > self._restarts:
            self.is_complete = False
            # Read the rest of the previous container's log first; kubectl has only one previous container's log.
            if restarts > self._restarts + 1 and self.begin:
                self.gaps += 1
                self._position = LogPosition()
            yield from self._read("--previous", patience=patience, is_over=True)
            self._position = LogPosition()
            self._restarts = restarts
        state = status["state"].get("running") or status["state"].get("terminated") or {}
        # Lines before a part are not missing.
        started = state.get("startedAt") if self._part.is_whole else None
        try:
            flags = ("--previous",) if self._part.is_previous else ()
            yield from self._read(*flags, patience=patience, is_over="terminated" in status["state"])
        finally:
            if started and not self.begin:
                until = moment(state["finishedAt"]) if state.get("finishedAt") else self._kubectl.runner.now()
                self.may_miss_all = until - moment(started) > _ROTATION
            elif started and self.begin == self._position.first:
                first, last = (moment(f"{text[:26].decode()}Z") for text in (self.begin, self._end))
                late = first - moment(started)
                per_second = self._bytes / max((last - first).total_seconds(), 1)
                self.late = late if per_second * late.total_seconds() > _MOST_KEPT else None

    def read_kept(self, log: KeptLog) -> Iterator[bytes]:
        """Yield the bytes of a deleted pod's log that were not read before it was deleted.

        Args:
            log: The log, as it was kept while the pod existed.
        """
        position, gaps = self._position, self.gaps - self._position.gaps + (log.is_cut and not self.begin)
        since = position.since
        position.resume()
        for piece in pieces(io.BytesIO(log.data)):
            if (piece.moment or since) >= since and (text := self._take(piece)):
                self.begin = self.begin or position.first
                self.gaps = gaps + position.gaps
                yield text
        self.is_complete = log.is_complete

    def _read(self, *flags: str, patience: float, is_over: bool) -> Iterator[bytes]:
        position, gaps = self._position, self.gaps - self._position.gaps
        arguments = ["logs", self._pod, f"--container={self._container}", "--timestamps", *flags, *self._from()]
        words, is_skipped = b"", self._tail == 0 and not position.first
        with self._kubectl.start(
            *arguments, idle=_idle_limit(self.shown, self._kubectl.remaining(patience) or 0)
        ) as running:
            for piece in pieces(running.stdout):
                if not piece.moment and _KUBELET_ERROR.match(piece.text):
                    words = piece.text
                elif (text := self._take(piece)) and not is_skipped:
                    self.begin = self.begin or position.first
                    self.gaps = gaps + position.gaps
                    yield text
            done = running.wait()
        if is_over and done.returncode == 0 and not words:
            position.finish()
            self.gaps = gaps + position.gaps
            self.is_complete = True
        self._check_end(done.returncode, done.stderr, words)
        self._tail = None

    def _from(self) -> list[str]:
        """Return kubectl's arguments for the position up to which the log was read, or for the part to begin with."""
        arguments = self._position.resume()
        if self._position.first:
            return arguments
        # The last line shows where the new ones begin. A time for kubectl has whole seconds.
        last = -1 if self._tail is None else max(self._tail, 1)
        return [f"--tail={last}", *((f"--since-time={self._since[:19].decode()}Z",) if self._since else ())]

    def _take(self, piece: Piece) -> bytes:
        """Return the unread bytes of a piece that belong to the part to read, with the time if they begin a line."""
        if piece.moment and piece.moment < self._since:
            return b""
        text = self._position.take(piece)
        self._bytes += len(text)
        self._end = piece.moment or self._end
        if self._part.has_times and piece.moment and piece.is_first and len(text) == len(piece.text):
            return piece.moment + b"Z " + text
        return text

    def _check_end(self, returncode: int, stderr: str, words: bytes) -> None:
        """Raise the error that kubectl's end means; a log that does not exist is no error."""
        if words:
            message = words.decode(errors="replace").strip()
            raise ClusterError(f"the log of {self.shown} cannot be read: {message}")
        if returncode == 0 or NOT_STARTED.search(stderr):
            return
        if NO_PREVIOUS_CONTAINER.search(stderr):
            self.gaps += not self._part.is_previous
            return
        if NO_POD.search(stderr):
            self.is_gone = True
            return
        if returncode < 0:
            raise ClusterError(f"the log of {self.shown} cannot be read: kubectl was ended by signal {-returncode}")
        error = error_from(stderr)
        kind = UnreachableError if isinstance(error, UnreachableError | KubeletError) else ClusterError
        raise kind(f"the log of {self.shown} cannot be read: {error}", hint=error.hint)


def _idle_limit(shown: str, patience: float) -> Callable[[float], None]:
    def idle(seconds: float) -> None:
        if seconds >= patience:
            message = f"the log of {shown} cannot be read: no answer from its kubelet for {seconds:g} s"
            raise UnreachableError(message, hint="kubectl get nodes")

    return idle

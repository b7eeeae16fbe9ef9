"""Reads logs of containers: once, or as they are written, each with a kubectl and a thread.

A log is continued after its last line when a connection breaks off or its container starts again.

Tests: cluster/test_logs.py.
"""

import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from packager.base.errors import ClusterError, KubeletError, MlpackError, UnreachableError
from packager.base.process import Running
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.messages import NO_POD, NO_PREVIOUS_CONTAINER, NOT_STARTED
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.objects import Object, container_statuses, main_container, moment, name, status, uid
from packager.kubernetes.pods import LAST_LINES, last_lines
from packager.kubernetes.verdict import Finding

PATIENCE = 10.0
"""Seconds without data after which a kubelet counts as not answering."""

MOST_STREAMS = 16
"""The largest number of logs that are read at the same time, each by a kubectl."""

_CHUNK = 64 << 10
_BLOCKS = 256
"""The blocks of lines that wait to be taken; kubectl waits while there are more."""

_PAUSE = 1.0
_END_SECONDS = 5.0

# RFC 3339, as Go writes it: older kubelets leave out a fraction's trailing zeros.
_STAMP = re.compile(rb"(2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")

# The messages of a kubelet in place of a log that it cannot read (pkg/kubelet/kuberuntime).
_KUBELET_ERROR = re.compile(rb"unable to retrieve container logs|failed to (try resolving|open log|create fs|watch)")

# The size at which a kubelet begins a new file for a log (containerLogMaxSize); a reader that comes later gets only it.
_MOST_KEPT = 10 << 20

_BURST = 32 << 10
"""The bytes from which on the speed of a log is measured within less than a second."""

_ENOUGH = 1 << 20
"""The bytes by which the speed of a log is known that goes on."""


class _Lines:
    """Takes the times off lines of `kubectl logs --timestamps`, and skips lines that were read before.

    A kubelet returns the lines since a whole second, so lines of the last second are returned again: those before the
    newest time are skipped, and of those with this time as many as were read.
    """

    def __init__(self) -> None:
        self.first = self.last = b""  # the times of the first and of the newest line
        self.has_gap = False  # whether an answer did not contain the newest line of the one before
        self.size = 0  # the bytes that were yielded
        self._count = 0  # the lines with the newest time
        self._given = 0  # the yielded bytes of the newest line, while it has no end
        self._is_again = False  # whether lines are returned that were read before
        self._again = 0  # the lines with the newest time that were returned again
        self._rest = b""
        self._is_within = False  # whether the next bytes belong to a line that has begun
        self._is_skipped = False  # whether these bytes are skipped

    def resume(self) -> None:
        """Begin with a new answer of kubectl."""
        self._rest, self._is_within, self.has_gap = b"", False, False
        self._is_again, self._again = bool(self.last), 0

    def take(self, data: bytes, *, is_end: bool = False) -> bytes:
        """Return the unread bytes of the complete lines, and of a long line that has not ended."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        taken = [self._line(line + b"\n") for line in lines]
        if self._rest and (is_end or len(self._rest) >= _CHUNK or (self._is_within and not self._is_skipped)):
            taken.append(self._line(self._rest))
            self._rest = b""
        text = b"".join(taken)
        self.size += len(text)
        return text

    def _line(self, line: bytes) -> bytes:
        """Return the unread bytes of a line, or of a part of it."""
        has_end, known = line.endswith(b"\n"), 0
        if not self._is_within:
            stamp = _STAMP.match(line)
            time = _time(stamp) if stamp else b""
            if not stamp or not time:
                # Without an end, the answer broke off within a time.
                return line if has_end and not self.last else b""
            line = line[stamp.end() :]
            known = self._known_bytes(time)
            self._is_skipped = known < 0
            if not self._is_skipped:
                self.first = self.first or time
                self._given = 0
        self._is_within = not has_end
        if self._is_skipped:
            return b""
        self._given = 0 if has_end else self._given + len(line)
        return line[known:]

    def _known_bytes(self, time: bytes) -> int:
        """Return how many bytes of a line were read before; -1 for all."""
        if self._is_again and time <= self.last:
            self._again += time == self.last
            if time < self.last or self._again <= self._count:
                return self._given if self._again == self._count and self._given else -1
        self.has_gap |= self._is_again and not self._again
        self._is_again = False
        if time > self.last:
            self.last, self._count = time, 0
        self._count += time == self.last
        return 0


def _time(stamp: re.Match[bytes]) -> bytes:
    """Return the time of a stamp in UTC as sortable text with nine digits; empty for an invalid time."""
    whole, fraction, zone = stamp.groups()
    if zone != b"Z":
        try:
            whole = datetime.fromisoformat((whole + zone).decode()).astimezone(UTC).isoformat()[:19].encode()
        except ValueError:
            return b""
    return bytes(whole + b"." + (fraction or b"").ljust(9, b"0"))


class ContainerLog:
    """The log of one container, each time read from the position reached before.

    `tail` is the number of last lines, of those written before the first read; None for all.
    """

    def __init__(self, kubectl: Kubectl, pod: Object, container: str | None = None, tail: int | None = None) -> None:
        self.pod = pod  # its newest known state
        self.container = container or main_container(pod)
        self.notes: list[str] = []  # what is missing at the position that was reached
        self.is_gone = False  # whether the pod no longer exists
        self.has_end = False  # whether the last answer was read to its end
        self.kubectl = kubectl
        self._tail = tail
        self._lines = _Lines()
        self._restarts: int | None = None  # of the container whose log was read last
        self._has_judged = False  # whether it is known if the first lines are missing

    @property
    def size(self) -> int:
        """The bytes that were read."""
        return self._lines.size

    @property
    def shown(self) -> str:
        """The pod's name for kubectl."""
        return f"pod/{name(self.pod)}"

    @property
    def has_begun(self) -> bool:
        """Whether the container has been started."""
        entry = self._status()
        return entry is not None and ("waiting" not in entry["state"] or bool(entry.get("restartCount")))

    @property
    def has_ended(self) -> bool:
        """Whether the container has ended, and is not started again."""
        entry = self._status()
        is_over = status(self.pod).get("phase") in ("Succeeded", "Failed")
        is_last = self.pod["spec"].get("restartPolicy") == "Never"
        return is_over or (is_last and entry is not None and "terminated" in entry["state"])

    @property
    def is_terminated(self) -> bool:
        """Whether the container does not run now, and has run."""
        return "terminated" in (self._status() or {"state": {}})["state"]

    def _status(self) -> Object | None:
        entries = container_statuses(self.pod)
        return next((dict(entry) for entry in entries if entry["name"] == self.container), None)

    def read(
        self, *, idle: Callable[[float], object], start: Callable[[Running], object] | None = None
    ) -> Iterator[bytes]:
        """Yield the new bytes, in blocks of lines.

        Args:
            idle: Called with the seconds without data; its exception ends the reading.
            start: Receives each kubectl, which then follows the log; None to read what there is now.
        """
        restarts, earlier = int((self._status() or {}).get("restartCount") or 0), self._restarts
        if restarts and self._tail is None and restarts != earlier:
            # kubectl has only one previous container's log.
            if earlier is not None and restarts > earlier + 1:
                self._note_gap()
            yield from self._read_one(["--previous"], idle, None)
        self._restarts = restarts
        yield from self._read_one(["--follow"] if start else [], idle, start, is_same=earlier == restarts)

    def _read_one(
        self,
        flags: list[str],
        idle: Callable[[float], object],
        start: Callable[[Running], object] | None,
        *,
        is_same: bool = False,
    ) -> Iterator[bytes]:
        lines = self._lines
        lines.resume()
        arguments = ["logs", name(self.pod), f"--container={self.container}", "--timestamps", *flags, *self._from()]
        message = b""
        with self.kubectl.start(*arguments, idle=idle) as running:
            if start:
                start(running)
            while chunk := running.stdout.read1(_CHUNK):
                if not lines.first and not _STAMP.match(chunk) and _KUBELET_ERROR.match(chunk):
                    message = chunk
                    continue
                text = lines.take(chunk)
                if lines.has_gap and is_same:
                    self._note_gap()
                lines.has_gap = False
                if text:
                    if lines.size >= _ENOUGH:
                        self._note_late()
                    self.has_end = False
                    yield text
            if text := lines.take(b"", is_end=True):
                yield text
            self._note_late()
            done = running.wait()
        self._check_end(done.returncode, done.stderr, message)

    def _from(self) -> list[str]:
        """Return kubectl's argument for the position up to which the log was read, or for the lines to begin with."""
        if last := self._lines.last:
            second = datetime.fromisoformat(last[:19].decode()) - timedelta(seconds=1)
            return [f"--since-time={second.isoformat()}Z"]
        return [f"--tail={-1 if self._tail is None else self._tail}"]

    def _note_gap(self) -> None:
        self.notes.append(
            f"lines of {self.shown} may be missing here: its node has rotated the log since the last read"
        )

    def _note_late(self) -> None:
        """Note that the first lines are missing, if the container writes so fast that its node has removed them."""
        state = (self._status() or {"state": {}})["state"]
        begin = (state.get("running") or state.get("terminated") or {}).get("startedAt")
        if self._has_judged or self._tail is not None or not self._lines.first:
            return
        self._has_judged = True
        if not begin or self._restarts:
            return
        first, last = (moment(f"{time[:26].decode()}Z") for time in (self._lines.first, self._lines.last))
        late, seconds = (first - moment(begin)).total_seconds(), (last - first).total_seconds()
        if late * self.size / max(seconds, 0.01 if self.size >= _BURST else 1) > _MOST_KEPT:
            what = f"the log of {self.shown} begins {late:,.0f} s after its container started"
            self.notes.append(f"{what}: earlier lines, if any, are no longer on its node")

    def _check_end(self, returncode: int, stderr: str, message: bytes) -> None:
        """Raise the error that kubectl's end means; a log that does not exist is no error."""
        if message:
            raise ClusterError(f"the log of {self.shown} cannot be read: {message.decode(errors='replace').strip()}")
        self.has_end |= returncode == 0
        if returncode == 0 or NOT_STARTED.search(stderr):
            return
        if NO_PREVIOUS_CONTAINER.search(stderr):
            self._note_gap()
        elif NO_POD.search(stderr):
            self.is_gone = True
        elif returncode < 0:
            raise ClusterError(f"the log of {self.shown} cannot be read: kubectl was ended by signal {-returncode}")
        else:
            error = error_from(stderr)
            kind = UnreachableError if isinstance(error, UnreachableError | KubeletError) else ClusterError
            raise kind(f"the log of {self.shown} cannot be read: {error}", hint=error.hint)


def read_once(log: ContainerLog, patience: float = PATIENCE) -> Iterator[bytes]:
    """Yield the new bytes of a log that are there now; none if its container has not been started."""

    def idle(seconds: float) -> None:
        if seconds >= patience:
            message = f"the log of {log.shown} cannot be read: no answer from its kubelet for {seconds:g} s"
            raise UnreachableError(message, hint="kubectl get nodes")

    if log.has_begun:
        yield from log.read(idle=idle)


def log_end(log: ContainerLog, size: int, seconds: float = PATIENCE) -> bytes:
    """Return the last bytes of a log that are read within some seconds. Raises the errors of `read_once`."""
    end, clock = b"", log.kubectl.runner.clock
    deadline = clock() + seconds
    for block in read_once(log, seconds):
        end = (end + block)[-size:]
        if clock() > deadline:
            break
    return end


def with_log_end(kubectl: Kubectl, finding: Finding) -> Finding:
    """Return the finding with the end of the container's log if the pod's status did not contain it."""
    if finding.log or not finding.container:
        return finding
    entry = {"name": finding.container, "state": {"terminated": {}}}
    metadata = {"name": finding.subject.removeprefix("pod/")}
    pod = {"metadata": metadata, "spec": {}, "status": {"containerStatuses": [entry]}}
    try:
        end = log_end(ContainerLog(kubectl, pod, finding.container, LAST_LINES), 4 * _CHUNK)
    except MlpackError:
        return finding
    return replace(finding, log=last_lines(end.decode(errors="replace")))


@dataclass(frozen=True, slots=True)
class LogPart:
    """A block of lines of a log, or a remark on what comes before or after it."""

    log: ContainerLog
    content: bytes | str


class Prefixes:
    """Puts the name of its pod before each line of a log, where there are several."""

    def __init__(self) -> None:
        self._open = ""  # the pod of an unfinished last line

    def put(self, pod: str, data: bytes, *, has_name: bool) -> bytes:
        """Return a block of lines of a pod, on a line of its own."""
        is_new = self._open != pod
        before = b"\n" if self._open and is_new else b""
        self._open = "" if data.endswith(b"\n") else pod
        if not has_name:
            return before + data
        prefix, end = f"[{pod}] ".encode(), b"\n" if data.endswith(b"\n") else b""
        return before + (prefix if is_new else b"") + data.removesuffix(b"\n").replace(b"\n", b"\n" + prefix) + end


@dataclass(eq=False)
class _Stream:
    """A log that a thread follows."""

    log: ContainerLog
    thread: threading.Thread | None = None
    running: Running | None = None
    error: ClusterError | None = None  # of the last read; None if that has succeeded
    has_answered: bool = False  # whether it has read something, or could not

    @property
    def is_alive(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


class LogStreams:
    """Reads logs as they are written, until the block ends."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._is_over = threading.Event()
        self._news = threading.Condition()  # notified when a stream has read something, or a pod has changed
        self._parts: queue.Queue[LogPart] = queue.Queue(_BLOCKS)
        self._streams: dict[tuple[str, str], _Stream] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._news:
            self._is_over.set()
            streams = list(self._streams.values())
            self._news.notify_all()
        for stream in streams:
            if stream.running:
                stream.running.stop()
        for stream in streams:
            if stream.thread:
                stream.thread.join(_END_SECONDS)

    @property
    def logs(self) -> list[ContainerLog]:
        """The logs, in the order in which they were begun."""
        return [stream.log for stream in self._streams.values()]

    @property
    def error(self) -> ClusterError | None:
        """The error of the first log that cannot be read now."""
        return next((stream.error for stream in self._streams.values() if stream.error), None)

    def follow(
        self, pod: Object, container: str | None = None, tail: int | None = None, *, is_deleted: bool = False
    ) -> bool:
        """Begin to read a log when its container has started; call it again with each new state of the pod.

        Returns:
            Whether the log is read; it is not while MOST_STREAMS others are.
        """
        key = uid(pod), container or main_container(pod)
        with self._news:
            earlier = self._streams.get(key)
            if earlier:
                earlier.log.pod = pod
                self._news.notify_all()
                if is_deleted or not earlier.log.is_gone or earlier.is_alive:
                    return True
            log = earlier.log if earlier else ContainerLog(self._kubectl, pod, container, tail)
            log.is_gone = False
            if self._is_over.is_set() or not log.has_begun:
                return True
            if sum(stream.is_alive for stream in self._streams.values()) >= MOST_STREAMS:
                return False
            stream = self._streams[key] = _Stream(log)
            stream.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
            stream.thread.start()
        return True

    def wait(self, seconds: float) -> None:
        """Wait until each stream has read something, or could not, but at most this long."""
        with self._news:
            self._news.wait_for(
                lambda: all(stream.has_answered for stream in self._streams.values()) or self._parts.full(), seconds
            )

    def parts(self, seconds: float = 0.0) -> Iterator[LogPart]:
        """Yield the parts that were read, and wait for the first one at most this long."""
        with suppress(queue.Empty):
            yield self._parts.get(timeout=seconds) if seconds else self._parts.get_nowait()
            for _ in range(4 * _BLOCKS):  # while they are taken, others arrive
                yield self._parts.get_nowait()

    def finish(self, patience: float = PATIENCE) -> Iterator[LogPart]:
        """Yield the rest of all logs: of those that still follow a running container, what there is now."""
        waited = 0.0
        while waited < patience and any(
            stream.is_alive and stream.log.has_ended and not stream.error for stream in self._streams.values()
        ):
            waited += 0.1
            for part in self.parts(0.1):
                waited = 0.0
                yield part
        stopping = threading.Thread(target=self.__exit__, daemon=True)
        stopping.start()
        while stopping.is_alive():
            yield from self.parts(0.02)
        yield from self.parts()
        for stream in self._streams.values():
            log = stream.log
            if log.is_gone and not log.has_end:
                missing = f"the end of the log of {log.shown} is missing: the pod was deleted before it was read"
                yield LogPart(log, missing)
            if log.is_gone or (log.has_end and log.has_ended):
                continue
            stream.error = None
            try:
                for block in read_once(log, patience):
                    yield LogPart(log, block)
            except ClusterError as error:
                stream.error = error
            yield from (LogPart(log, note) for note in log.notes)

    def _read(self, stream: _Stream) -> None:
        """Read a log until its container has ended; what breaks off is continued after the last line."""
        log, is_over = stream.log, self._is_over

        def begin(running: Running) -> None:
            stream.running = running
            if is_over.is_set():
                running.stop()

        while not is_over.is_set():
            pod, size, error = log.pod, log.size, None
            try:
                for block in log.read(idle=lambda _seconds: None, start=begin):
                    stream.error = None
                    self._put(stream, block)
            except ClusterError as refusal:
                error = refusal
            except (MlpackError, OSError, ValueError) as failure:
                error = ClusterError(f"the log of {log.shown} cannot be read: {failure}")
            stream.error = None if is_over.is_set() else error
            self._put(stream)
            # A kubelet ends with the file that it reads, although it has begun another one, if the container has ended.
            is_at_end = log.size < _MOST_KEPT or log.size == size
            if log.is_gone or (log.has_ended and is_at_end and stream.error is None):
                return
            with self._news:  # the state of the pod is known a moment later
                self._news.wait_for(lambda: is_over.is_set() or log.pod is not pod, _PAUSE)  # noqa: B023
            if stream.error:
                is_over.wait(_PAUSE)

    def _put(self, stream: _Stream, *blocks: bytes) -> None:
        """Pass on the notes on a log and new blocks of it; while they are not taken, kubectl waits."""
        contents: list[bytes | str] = [*stream.log.notes, *blocks]
        stream.log.notes = []
        for content in contents:
            while not (self._is_over.is_set() and self._parts.full()):
                with suppress(queue.Full):
                    self._parts.put(LogPart(stream.log, content), timeout=_PAUSE)
                    break
        with self._news:
            stream.has_answered = True
            self._news.notify_all()

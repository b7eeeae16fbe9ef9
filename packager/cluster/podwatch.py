"""Watches the pods of a workload between two polls, and keeps the last state and the log of pods that are deleted.

A controller that starts all pods again deletes the old ones as soon as one has failed. Without a watch, pods that begin
and end between two polls are never seen. A Job's controller counts failed pods once a second (`syncJobBatchPeriod` in
pkg/controller/job/job_controller.go), so that a log that is opened when a container starts is read to its end.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from packager.base.errors import DeniedError, MlpackError
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import container_statuses, created, main_container, name, uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from packager.base.process import Running
    from packager.cluster.loglines import Stream
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

    Choose = Callable[[Sequence[Object]], Sequence[Object]]

MOST_STREAMS = 8
"""The largest number of logs that are read at the same time, each by a kubectl."""

LOG_BYTES = 4 << 20
"""The bytes of a log that are kept, from its end."""

_MOST_PODS = 1_000
_OBJECT_BYTES = 8 << 20
_CHUNK = 64 << 10
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_END_SECONDS = 5.0


@dataclass(slots=True)
class KeptLog:
    """The log of a pod's container, in lines that begin with their times.

    Attributes:
        is_cut: Whether the log was longer than LOG_BYTES, so that only its end is kept.
        is_complete: Whether the log was read until its container ended.
        has_ended: Is set when there is nothing more to read.
    """

    is_cut: bool = False
    is_complete: bool = False
    has_ended: threading.Event = field(default_factory=threading.Event)
    _chunks: deque[bytes] = field(default_factory=deque)
    _size: int = 0
    _begins_within_line: bool = False

    def add(self, chunk: bytes) -> None:
        """Append to the log."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size > LOG_BYTES:
            dropped = self._chunks.popleft()
            self._size -= len(dropped)
            self.is_cut, self._begins_within_line = True, not dropped.endswith(b"\n")

    @property
    def data(self) -> bytes:
        """The kept bytes, from the beginning of a line."""
        data = b"".join(tuple(self._chunks))
        return data.partition(b"\n")[2] if self._begins_within_line else data


class PodWatch:
    """Watches pods in a thread of its own, until the block ends.

    Args:
        kubectl: The user's kubectl.
        choose: Returns the pods, of all that exist, whose logs are kept from their first line; None for none of them.
        container: The container whose log is kept; None for the main one.

    Attributes:
        is_refused: Whether the user may not watch pods.
    """

    def __init__(self, kubectl: Kubectl, choose: Choose | None = None, container: str | None = None) -> None:
        self.is_refused = False
        self._kubectl = kubectl
        self._choose = choose
        self._container = container
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, Object] = {}
        self._deleted: set[str] = set()
        self._logs: dict[str, KeptLog] = {}
        self._starts: dict[str, int] = {}  # how often the container whose log is read had been started
        self._running: set[Running] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._is_over.set()
            running, threads = tuple(self._running), tuple(self._threads)
        for program in running:
            program.stop()
        for thread in threads:
            thread.join(_END_SECONDS)

    @property
    def keeps_logs(self) -> bool:
        """Whether logs are kept, not only the states of pods."""
        return self._choose is not None

    def pods_since(self, begin: datetime) -> list[Object]:
        """Return the last known states of the pods created since `begin`, even of deleted ones; at most _MOST_PODS."""
        with self._lock:
            return [pod for pod in self._pods.values() if created(pod) >= begin]

    def log(self, pod: Object) -> KeptLog | None:
        """Return the kept log of a pod; None if it was not read."""
        with self._lock:
            return self._logs.get(uid(pod))

    def begin(self, pods: str) -> None:
        """Watch pods, which `kubectl get pods` finds by this argument, from the first call on."""
        if not self._threads:
            self._start(self._watch, pods)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        with self._lock:
            if self._is_over.is_set():
                return
            thread = threading.Thread(target=work, args=arguments, daemon=True)
            self._threads = [*(known for known in self._threads if known.is_alive()), thread]
            thread.start()

    def _watch(self, pods: str) -> None:
        """Watch until the end; a watch that breaks off, or is too old for the server, begins again with a new list.

        The pauses get longer while watches yield nothing, or end with an error of the server such as compaction.
        """
        pause = _FIRST_PAUSE
        arguments = ("get", "pods", pods, "--watch", "--output-watch-events", "--output=json")
        while not self._is_over.is_set():
            has_ended_well = False
            try:
                with self._program(*arguments) as program:
                    for event in events(program.stdout):
                        self.take(event)
                        has_ended_well = event.get("type") != "ERROR"
                    stderr = program.wait().stderr
            except (MlpackError, OSError, ValueError, RecursionError):
                stderr = ""
            if stderr and isinstance(error_from(stderr), DeniedError):
                self.is_refused = True
                return
            if has_ended_well:
                pause = _FIRST_PAUSE
            self._is_over.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @contextmanager
    def _program(self, *arguments: str) -> Iterator[Running]:
        """Run a kubectl, which is ended with the watch."""
        with self._kubectl.start(*arguments) as program:
            with self._lock:
                self._running.add(program)
            if self._is_over.is_set():
                program.stop()
            try:
                yield program
            finally:
                with self._lock:
                    self._running.discard(program)

    def take(self, event: Object) -> None:
        """Remember a pod's state, and begin to read the logs that are to be kept."""
        pod = mapping(event.get("object"))
        if pod.get("kind") != "Pod":
            return
        with self._lock:
            self._pods[uid(pod)] = pod
            if event.get("type") == "DELETED":
                self._deleted.add(uid(pod))
            if len(self._pods) > _MOST_PODS:
                self._forget(next(iter(self._pods)))
            living = [pod for key, pod in self._pods.items() if key not in self._deleted]
        for chosen in self._choose(living) if self._choose else ():
            self._keep(chosen)

    def _container_of(self, pod: Object) -> str:
        """Return the name of the container whose log is kept."""
        return self._container or main_container(pod)

    def _forget(self, key: str) -> None:
        self._pods.pop(key)
        self._logs.pop(key, None)
        self._starts.pop(key, None)
        self._deleted.discard(key)

    def _keep(self, pod: Object) -> None:
        """Begin to read the log of a pod whose container has started, or has started again."""
        key, starts = uid(pod), _starts(pod, self._container_of(pod))
        with self._lock:
            is_full = sum(not log.has_ended.is_set() for log in self._logs.values()) >= MOST_STREAMS
            if is_full or starts <= self._starts.get(key, 0):
                return
            self._starts[key] = starts
            log = self._logs.setdefault(key, KeptLog())
            log.has_ended.clear()
        self._start(self._read, pod, log)

    def _read(self, pod: Object, log: KeptLog) -> None:
        """Read the log of a pod until its container ends; a log that breaks off is read again at the next event."""
        arguments = ("logs", name(pod), f"--container={self._container_of(pod)}", "--timestamps", "--follow")
        log.is_complete = False
        try:
            with self._program(*arguments) as program:
                while chunk := program.stdout.read1(_CHUNK):
                    log.add(chunk)
                log.is_complete = program.wait().returncode == 0
        except (MlpackError, OSError, ValueError, RecursionError):
            pass
        with self._lock:
            if not log.is_complete:
                self._starts.pop(uid(pod), None)
            log.has_ended.set()


def _starts(pod: Object, container: str) -> int:
    """Return how often the pod's container was started."""
    for entry in container_statuses(pod):
        if entry["name"] == container:
            has_begun = "waiting" not in entry["state"]
            return int(entry.get("restartCount") or 0) + has_begun
    return 0


def events(stream: Stream) -> Iterator[Object]:
    """Yield the events that kubectl prints, one per line.

    Raises:
        ValueError: kubectl printed something else, or an object that is too large.
    """
    rest = b""
    while chunk := stream.read1(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (mapping(json.loads(line)) for line in lines)
        if len(rest) > _OBJECT_BYTES:
            raise ValueError(f"an event has more than {_OBJECT_BYTES:,} bytes")

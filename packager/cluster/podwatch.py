"""Watches the pods of a workload between two polls, and keeps the last state of pods that are deleted.

A controller that starts all pods again deletes the old ones as soon as one has failed. Without a watch, pods that begin
and end between two polls are never seen. A Job's controller counts failed pods once a second (`syncJobBatchPeriod` in
pkg/controller/job/job_controller.go), so that a log that is opened when a container starts is read to its end.
"""

from __future__ import annotations

import json
import threading
from typing import IO, TYPE_CHECKING, Self

from packager.base.errors import DeniedError, MlpackError
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import created, uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from packager.base.process import Running
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

    Begin = Callable[[Sequence[Object]], object]

_MOST_PODS = 1_000
_OBJECT_BYTES = 8 << 20
_CHUNK = 64 << 10
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_END_SECONDS = 5.0


class PodWatch:
    """Watches pods in a thread of its own, until the block ends.

    Args:
        kubectl: The user's kubectl.
        begin: Called in the thread of the watch with the living pods, after each event; None for nothing.
    """

    def __init__(self, kubectl: Kubectl, begin: Begin | None = None) -> None:
        self.is_refused = False  # whether the user may not watch pods
        self._kubectl = kubectl
        self._begin = begin
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, Object] = {}
        self._deleted: set[str] = set()
        self._running: Running | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        with self._lock:
            running, thread = self._running, self._thread
        if running:
            running.stop()
        if thread:
            thread.join(_END_SECONDS)

    @property
    def keeps_logs(self) -> bool:
        """Whether logs are read as soon as pods begin."""
        return self._begin is not None

    def pods_since(self, begin: datetime) -> list[Object]:
        """Return the last known states of the pods created since `begin`, even of deleted ones; at most _MOST_PODS."""
        with self._lock:
            return [pod for pod in self._pods.values() if created(pod) >= begin]

    def begin(self, pods: str) -> None:
        """Watch pods, which `kubectl get pods` finds by this argument, from the first call on."""
        if self._thread is None and not self._is_over.is_set():
            self._thread = threading.Thread(target=self._watch, args=(pods,), daemon=True)
            self._thread.start()

    def _watch(self, pods: str) -> None:
        """Watch until the end; a watch that breaks off, or is too old for the server, begins again with a new list.

        The pauses get longer while watches yield nothing, or end with an error of the server such as compaction.
        """
        pause = _FIRST_PAUSE
        arguments = ("get", "pods", pods, "--watch", "--output-watch-events", "--output=json")
        while not self._is_over.is_set():
            has_ended_well = False
            try:
                with self._kubectl.start(*arguments) as program:
                    self._running = program
                    if self._is_over.is_set():
                        program.stop()
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

    def take(self, event: Object) -> None:
        """Remember a pod's state."""
        pod = mapping(event.get("object"))
        if pod.get("kind") != "Pod":
            return
        with self._lock:
            self._pods[uid(pod)] = dict(pod)
            if event.get("type") == "DELETED":
                self._deleted.add(uid(pod))
            if len(self._pods) > _MOST_PODS:
                oldest = next(iter(self._pods))
                del self._pods[oldest]
                self._deleted.discard(oldest)
            living = [pod for key, pod in self._pods.items() if key not in self._deleted]
        if self._begin:
            self._begin(living)


def events(stream: IO[bytes]) -> Iterator[Object]:
    """Yield the events that kubectl prints, one per line.

    Raises:
        ValueError: kubectl printed something else, or an object that is too large.
    """
    rest = b""
    while chunk := stream.read1(_CHUNK):  # type: ignore[attr-defined]
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (mapping(json.loads(line)) for line in lines)
        if len(rest) > _OBJECT_BYTES:
            raise ValueError(f"an event has more than {_OBJECT_BYTES:,} bytes")

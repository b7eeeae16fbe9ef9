"""Keeps pods that are deleted between two polls: their last states by a watch, and the last lines of their logs.

A controller that starts all pods again deletes the old ones as soon as one has failed. Without a watch, pods that begin
and end between two polls are never seen. A Job's controller counts failed pods once a second (`syncJobBatchPeriod` in
pkg/controller/job/job_controller.go), so that a log that is opened when a container starts is read to its end.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from typing import IO, Self

from packager.base.errors import DeniedError, MlpackError
from packager.base.process import Running  # noqa: TC001 - a block for one type would be longer
from packager.cluster.logreader import MOST_STREAMS, ContainerLog, log_end
from packager.cluster.observe import pods_of
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import Object, created, is_running, uid
from packager.kubernetes.pods import after_carriage_return, has_ended
from packager.kubernetes.snapshot import PodLog, Snapshot
from packager.workloads.kinds import Workload

Begin = Callable[[Sequence[Object]], object]

ReadSnapshot = Callable[..., Snapshot | None]
"""Takes a snapshot, with `events` if that is true: a namespace may contain thousands; None without a workload."""


_MOST_PODS = 1_000
_OBJECT_BYTES = 8 << 20
_CHUNK = 64 << 10
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_END_SECONDS = 5.0

_LINES = 200
_LOG_BYTES = 1 << 20
_LINE_BYTES = 8 << 10
_LOG_SECONDS = 20.0
"""Seconds in which a log is read; of a slower one, the part that was read in time is kept."""


class PodWatch:
    """Watches pods in a thread of its own, until the block ends.

    `begin` is called in this thread with the living pods, after each event.
    """

    def __init__(self, kubectl: Kubectl, begin: Begin | None = None) -> None:
        self.is_refused = False  # whether the user may not watch pods
        self.keeps_logs = begin is not None  # whether logs are read as soon as pods begin
        self._kubectl = kubectl
        self._begin = begin
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._pods: dict[str, tuple[Object, bool]] = {}  # the last state, and whether it lives
        self._running: Running | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        if self._running:
            self._running.stop()
        if self._thread:
            self._thread.join(_END_SECONDS)

    def pods_since(self, begin: datetime) -> list[Object]:
        """Return the last known states of the pods created since `begin`, even of deleted ones; at most _MOST_PODS."""
        with self._lock:
            return [pod for pod, _ in self._pods.values() if created(pod) >= begin]

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
            has_ended_well, stderr = False, ""
            try:
                with self._kubectl.start(*arguments) as program:
                    self._running = program
                    if self._is_over.is_set():
                        program.stop()
                    for event in events(program.stdout):
                        self._take(event)
                        has_ended_well = event.get("type") != "ERROR"
                    stderr = program.wait().stderr
            except (MlpackError, OSError, ValueError, RecursionError):
                pass
            if stderr and isinstance(error_from(stderr), DeniedError):
                self.is_refused = True
                return
            if has_ended_well:
                pause = _FIRST_PAUSE
            self._is_over.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _take(self, event: Object) -> None:
        """Remember a pod's state."""
        pod = mapping(event.get("object"))
        if pod.get("kind") != "Pod":
            return
        with self._lock:
            self._pods[uid(pod)] = pod, event.get("type") != "DELETED"
            if len(self._pods) > _MOST_PODS:
                del self._pods[next(iter(self._pods))]
            living = [pod for pod, is_living in self._pods.values() if is_living]
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


class LogKeeper:
    """Takes snapshots that include the last lines of pods that will be deleted because one of them has failed."""

    def __init__(self, read: ReadSnapshot, kubectl: Kubectl, kind: Workload, watch: PodWatch | None = None) -> None:
        self._read = read
        self._kubectl = kubectl
        self._kind = kind
        self._watch = watch
        self._logs: dict[str, PodLog] = {}
        self._running: list[Object] = []

    def __call__(self, *, events: bool) -> Snapshot | None:
        """Return a snapshot with all logs that were kept so far. Raises the errors of `read`."""
        snapshot = self._read(events=events)
        if snapshot is None:
            return None
        # They may be deleted at any moment, and those that have failed say most.
        pods = [pod for pod in self._kind.pods_about_to_go(snapshot) if not self._is_kept(pod)]
        pods.sort(key=lambda pod: not has_ended(pod))
        if pods:
            with ThreadPoolExecutor(MOST_STREAMS) as pool:
                for pod, lines in zip(pods, pool.map(self._last_lines, pods), strict=True):
                    self._keep(pod, lines)
            present = set(map(uid, snapshot.pods))  # others were deleted before their logs could be read
            for pod in self._running:
                if uid(pod) not in present | self._logs.keys():
                    self._keep(pod)
        self._running = [pod for pod in snapshot.pods if is_running(pod)]
        self._add_watched(snapshot)
        return replace(snapshot, logs=tuple(self._logs.values()))

    def _keep(self, pod: Object, lines: tuple[str, ...] = ()) -> None:
        earlier = self._logs[uid(pod)].lines if uid(pod) in self._logs else ()
        self._logs[uid(pod)] = PodLog(pod, lines or earlier)

    def _is_kept(self, pod: Object) -> bool:
        """Whether the pod's log was read, and has not changed since."""
        log = self._logs.get(uid(pod))
        return log is not None and (has_ended(log.pod) or not has_ended(pod))

    def _add_watched(self, snapshot: Snapshot) -> None:
        """Add the pods that the watch has seen, and the snapshot no longer contains."""
        watch, workload = self._watch, snapshot.workload
        if watch is None or not self._kind.selector(workload):
            return
        if not (watch.keeps_logs or self._kind.restarts_pods):
            return
        watch.begin(pods_of(self._kind, workload))
        living = set(map(uid, snapshot.pods))
        for pod in watch.pods_since(created(workload)):
            earlier = self._logs.get(uid(pod))
            if uid(pod) not in living and (earlier is None or not has_ended(earlier.pod)):
                self._keep(pod)

    def _last_lines(self, pod: Object) -> tuple[str, ...]:
        """Return the last lines of a pod; none if they cannot be read."""
        log = ContainerLog(self._kubectl, pod, tail=_LINES)
        try:
            end = log_end(log, _LOG_BYTES, self._kubectl.remaining(_LOG_SECONDS) or 0)
        except MlpackError:
            return ()
        lines = end.decode(errors="replace").removesuffix("\n").split("\n") if end else ()
        return tuple(after_carriage_return(line)[-_LINE_BYTES:] for line in lines)

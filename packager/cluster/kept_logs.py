"""Reads the logs of pods that are about to be deleted, and keeps them in every later snapshot."""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from packager.base.errors import MlpackError, UnreachableError
from packager.cluster.observe import pods_of, selector_flag
from packager.kubernetes.objects import created, is_running, name, uid
from packager.kubernetes.pods import after_carriage_return
from packager.kubernetes.snapshot import PodLog
from packager.kubernetes.stopped import has_ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.podwatch import PodWatch
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Workload

_LINES = 200
_SECONDS = 20.0
"""Seconds in which all logs are read; of slower logs, the part that was read in time is kept."""

_LINE_BYTES = 8 << 10
_CHUNK = 64 << 10

# The messages of a kubelet in place of a log that no longer exists (pkg/kubelet/kuberuntime).
_UNREADABLE = re.compile(r"unable to retrieve container logs|failed to (try resolving|open log|create fs|watch)")

# kubectl's prefix of each line of several pods' logs.
_LINE = re.compile(r"\[pod/(?P<pod>[^/\]]+)/[^\]]+\] (?P<text>.*)")


class SnapshotReader(Protocol):
    """A function that takes a snapshot."""

    def __call__(self, *, events: bool) -> Snapshot | None:
        """Return the workload and its objects; None if the workload does not exist.

        Args:
            events: Whether to read events too; a namespace may contain thousands.
        """


class LogKeeper:
    """Takes snapshots that include the last lines of pods that will be deleted because one of them has failed."""

    def __init__(self, read: SnapshotReader, kubectl: Kubectl, kind: Workload, watch: PodWatch | None = None) -> None:
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
        pods = [pod for pod in self._kind.pods_about_to_go(snapshot) if not self._is_kept(pod)]
        if pods:
            lines = self._lines(snapshot.workload, pods)
            for pod in pods:
                earlier = self._logs[uid(pod)].lines if uid(pod) in self._logs else ()
                self._logs[uid(pod)] = PodLog(pod, lines.get(name(pod)) or earlier)
            self._add_missed(snapshot)
        self._running = [pod for pod in snapshot.pods if is_running(pod)]
        self._add_watched(snapshot)
        return replace(snapshot, logs=tuple(self._logs.values()))

    def _add_missed(self, snapshot: Snapshot) -> None:
        """Add the pods that were running in the last snapshot and were deleted before their logs could be read."""
        present = set(map(uid, snapshot.pods))
        for pod in self._running:
            if uid(pod) not in present:
                self._logs.setdefault(uid(pod), PodLog(pod, ()))

    def _add_watched(self, snapshot: Snapshot) -> None:
        """Add the pods that the watch has seen, and the snapshot no longer contains."""
        if self._watch is None or not self._kind.selector(snapshot.workload):
            return
        if not (self._watch.keeps_logs or self._kind.restarts_pods(snapshot.workload)):
            return
        self._watch.begin(pods_of(self._kind, snapshot.workload))
        living = set(map(uid, snapshot.pods))
        for pod in self._watch.pods_since(created(snapshot.workload)):
            earlier = self._logs.get(uid(pod))
            if uid(pod) not in living and (earlier is None or not has_ended(earlier.pod)):
                self._logs[uid(pod)] = PodLog(pod, earlier.lines if earlier else ())

    def _is_kept(self, pod: Object) -> bool:
        """Whether the pod's log was read, and has not changed since."""
        log = self._logs.get(uid(pod))
        return log is not None and (has_ended(log.pod) or not has_ended(pod))

    def _lines(self, workload: Object, pods: Sequence[Object]) -> dict[str, tuple[str, ...]]:
        """Return the last lines of each pod by name, read in one call, since the pods may be deleted at any moment."""
        selector = selector_flag(self._kind.selector(workload) or {})
        logs: dict[str, deque[str]] = {name(pod): deque(maxlen=_LINES) for pod in pods}
        clock = self._kubectl.runner.clock
        deadline = clock() + (self._kubectl.remaining(_SECONDS) or 0)

        def has_time(_seconds: float = 0) -> bool:
            if clock() >= deadline:
                raise UnreachableError(f"the logs were not read within {_SECONDS:g} s")
            return True

        rest = b""
        arguments = ("logs", selector, f"--tail={_LINES}", "--prefix", "--ignore-errors")
        with suppress(MlpackError), self._kubectl.start(*arguments, idle=has_time) as running:
            while has_time() and (chunk := running.stdout.read1(_CHUNK)):
                *lines, rest = (rest + chunk).split(b"\n")
                # Of a long line, the beginning has the name of its pod.
                rest = rest if len(rest) < _LINE_BYTES else rest[: _LINE_BYTES // 2] + rest[-_LINE_BYTES // 2 :]
                for line in lines:
                    _add(logs, line)
            _add(logs, rest)
        return {pod: tuple(lines) for pod, lines in logs.items()}


def _add(logs: dict[str, deque[str]], line: bytes) -> None:
    """Add a line with its prefix to the log of its pod."""
    match = _LINE.match(line.decode(errors="replace"))
    if match and match["pod"] in logs and not _UNREADABLE.match(match["text"]):
        logs[match["pod"]].append(after_carriage_return(match["text"])[-_LINE_BYTES:])

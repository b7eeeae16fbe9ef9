"""Reads the logs of pods that are about to be deleted, and keeps them in every later snapshot."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError
from packager.cluster.observe import selector_flag
from packager.kubernetes.objects import name, uid
from packager.kubernetes.pods import after_carriage_return
from packager.kubernetes.snapshot import PodLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.cluster.follow import SnapshotReader
    from packager.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Workload

_LINES = 200
_SECONDS = 20.0

# What a kubelet writes in the place of a log that is gone already (pkg/kubelet/kuberuntime).
_UNREADABLE = re.compile(r"unable to retrieve container logs|failed to (try resolving|open log|create fs|watch)")

# What kubectl puts before each line of several pods' logs.
_LINE = re.compile(r"\[pod/(?P<pod>[^/\]]+)/[^\]]+\] (?P<text>.*)")


class LogKeeper:
    """Takes snapshots that include the last lines of pods that will be deleted because one of them has failed.

    Args:
        read: Takes a snapshot.
        kubectl: The user's.
        kind: The workload's kind, which knows when its pods are about to go.
    """

    def __init__(self, read: SnapshotReader, kubectl: Kubectl, kind: Workload) -> None:
        self._read = read
        self._kubectl = kubectl
        self._kind = kind
        self._logs: dict[str, PodLog] = {}

    def __call__(self, *, events: bool) -> Snapshot | None:
        """Return a snapshot, with the logs that were kept so far. Raises as what takes it."""
        snapshot = self._read(events=events)
        if snapshot is None:
            return None
        pods = [pod for pod in self._kind.pods_about_to_go(snapshot) if uid(pod) not in self._logs]
        if pods:
            lines = self._lines(snapshot.workload, pods)
            self._logs.update({uid(pod): PodLog(pod, lines.get(name(pod), ())) for pod in pods})
        return replace(snapshot, logs=tuple(self._logs.values()))

    def _lines(self, workload: Object, pods: Sequence[Object]) -> dict[str, tuple[str, ...]]:
        """Return the last lines of each pod, by its name: of all in one call, for they may go at any moment."""
        selector = selector_flag(self._kind.selector(workload) or {})
        arguments = ("logs", selector, f"--tail={_LINES}", "--prefix", "--ignore-errors")
        try:
            done = self._kubectl.run(*arguments, timeout=_SECONDS)
        except MlpackError:
            return {}
        names = set(map(name, pods))
        lines: dict[str, list[str]] = {}
        for line in done.stdout.split("\n"):
            if (match := _LINE.match(line)) and match["pod"] in names and not _UNREADABLE.match(match["text"]):
                lines.setdefault(match["pod"], []).append(after_carriage_return(match["text"]))
        return {pod: tuple(text) for pod, text in lines.items()}

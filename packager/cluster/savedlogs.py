"""Saves the logs of all containers of a workload into local files while it runs. Tests: cluster/test_record.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cluster.logreader import LogReader
from packager.kubernetes.objects import container_statuses, created, main_container, name, uid

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packager.cluster.podwatch import PodWatch
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.workloads.workload import Workload

MOST_BYTES = 1 << 30
"""The largest size of a saved log; a log that is longer is cut there."""

_EVERY = 10.0
"""Seconds between two reads of the log of a running container. A kubelet keeps 10 MiB of a log, and often more."""

_MOST_RUNNING = 8
"""The number of pods whose logs are read while they run, each by a kubectl. The others are read when they end."""

_END_SECONDS = 2.0
"""Seconds in which the rest of a deleted pod's log arrives."""

# Names of pods and containers are DNS names (RFC 1123); others would not come from Kubernetes.
FILE_NAME = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
"""The names of pods and containers that become names of files."""

_NAME = re.compile(FILE_NAME)


@dataclass(slots=True)
class _Saved:
    """The log of one container.

    Attributes:
        path: The file.
        reader: Reads the log from the position reached before.
        read_at: The time of the last read, by the clock of the runner.
        size: The number of bytes in the file.
        is_cut: Whether the log is longer than MOST_BYTES.
    """

    path: Path
    reader: LogReader
    read_at: float
    size: int = 0
    is_cut: bool = False

    def write(self, chunks: Iterable[bytes]) -> None:
        """Append to the file, up to the largest size. Raises OSError."""
        with self.path.open("ab") as file:
            for chunk in chunks:
                room = MOST_BYTES - self.size
                self.is_cut |= len(chunk) > room
                self.size += file.write(chunk[:room])


class SavedLogs:
    """The logs of a workload's containers as files `POD/CONTAINER.log`.

    Args:
        kubectl: The user's kubectl.
        kind: The kind of the workload.
        watch: Keeps the logs of pods that are deleted; None if no pod of this kind is.
        folder: The folder of the files; it is created for the first one.

    Attributes:
        error: The error of the last read; None if all logs could be read.
    """

    def __init__(self, kubectl: Kubectl, kind: Workload, watch: PodWatch | None, folder: Path) -> None:
        self.error: ClusterError | None = None
        self._kubectl = kubectl
        self._kind = kind
        self._watch = watch
        self._folder = folder
        self._logs: dict[tuple[str, str], _Saved] = {}

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that were written, in the order in which their containers were seen."""
        return tuple(log.path for log in self._logs.values())

    @property
    def cut(self) -> tuple[Path, ...]:
        """The files that do not contain the end of their logs."""
        return tuple(log.path for log in self._logs.values() if log.is_cut)

    def read(self, snapshot: Snapshot, *, is_last: bool = False) -> None:
        """Save new lines: of containers that have ended at once, of others now and then, or if it is the last time.

        Raises:
            OSError: A file cannot be written.
        """
        self.error = None
        shown = set(map(uid, self._kind.listed(snapshot.pods)[:_MOST_RUNNING]))
        for pod in snapshot.pods:
            for status in container_statuses(pod):
                has_ended = "running" not in status["state"]
                if is_last or has_ended or uid(pod) in shown:
                    self._read(pod, str(status["name"]), is_due=is_last or has_ended)
        self._read_deleted(snapshot, _END_SECONDS if is_last else 0.0)

    def _read(self, pod: Object, container: str, *, is_due: bool) -> None:
        log = self._log(pod, container)
        now = self._kubectl.runner.clock()
        if log is None or log.reader.is_complete or not (is_due or now - log.read_at >= _EVERY):
            return
        log.read_at = now
        try:
            log.write(log.reader.read(pod))
        except ClusterError as error:
            self.error = error

    def _read_deleted(self, snapshot: Snapshot, patience: float) -> None:
        """Save what the watch has kept of pods that no longer exist, once it has ended, or after `patience` seconds."""
        living = set(map(uid, snapshot.pods))
        for pod in self._watch.pods_since(created(snapshot.workload)) if self._watch else ():
            kept = self._watch.log(pod) if self._watch and uid(pod) not in living else None
            log = self._log(pod, main_container(pod)) if kept else None
            if kept and log and not log.reader.is_complete and (kept.has_ended.wait(patience) or patience):
                log.write(log.reader.read_kept(kept))
                log.reader.is_complete = True

    def _log(self, pod: Object, container: str) -> _Saved | None:
        """Return the log of a container; None if its names cannot be file names."""
        key = (uid(pod), container)
        if key not in self._logs:
            if not (_NAME.fullmatch(name(pod)) and _NAME.fullmatch(container)):
                return None
            path = self._path(name(pod), container)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            self._logs[key] = _Saved(path, LogReader(self._kubectl, pod, container), -_EVERY)
        return self._logs[key]

    def _path(self, pod: str, container: str) -> Path:
        """Return a path that no other log has: a pod that is created again may have the name of an earlier one."""
        taken = {log.path for log in self._logs.values()}
        path = self._folder / pod / f"{container}.log"
        number = 2
        while path in taken:
            path = self._folder / pod / f"{container}.{number}.log"
            number += 1
        return path

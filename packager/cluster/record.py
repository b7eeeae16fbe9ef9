"""Records runs in local folders: logs, manifests, values, verdict and results.

With `--results DIR`, the folder is `DIR/WORKLOAD/TIME`, with the time at which the workload was created in the cluster,
so that a later command on the same run continues its record.
"""

import errno
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Self

from packager.base import atomic, yamlio
from packager.base.errors import ClusterError, MlpackError, ToolError, reason
from packager.base.process import Tell
from packager.cluster.hold import HeldResults
from packager.cluster.logreader import ContainerLog, LogPart, LogStreams, read_once
from packager.cluster.podwatch import PodWatch
from packager.cluster.results import Results, ResultsCopy
from packager.cluster.status import status_from
from packager.cluster.target import Target
from packager.cluster.workload_watch import Update
from packager.kubernetes.objects import Object, container_statuses, created, name, uid
from packager.kubernetes.snapshot import Snapshot
from packager.kubernetes.verdict import Verdict
from packager.package import layout

VERDICT = "verdict.json"
"""The file that is written last: a record without it is of a run that was not followed to its end."""

_MOST_BYTES = 1 << 30
"""The largest size of a saved log; a log that is longer is cut there."""

_LOGS = "logs"
_TIME = "%Y%m%dT%H%M%SZ"
_MAX_ENV_BYTES = 1 << 20

# Names of pods and containers are DNS names (RFC 1123); others would not come from Kubernetes.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished record."""

    folder: Path
    logs: int  # their number
    results: tuple[Results, ...]  # those that were copied
    errors: tuple[MlpackError, ...]  # why results or logs are missing


def _logs_of(target: Target, pods: Sequence[Object]) -> Iterator[ContainerLog]:
    """Yield the logs of containers whose names can be file names, those of listed pods first."""
    listed = target.manifests.kind.listed(pods)
    known = set(map(uid, listed))
    for pod in (*listed, *(pod for pod in pods if uid(pod) not in known)):
        for container in (str(entry["name"]) for entry in container_statuses(pod)):
            if _NAME.fullmatch(name(pod)) and _NAME.fullmatch(container):
                yield ContainerLog(target.kubectl, pod, container)


class RunRecord:
    """The record of one run, which grows while the run is followed; `copy` is to the folder of all records."""

    def __init__(self, copy: ResultsCopy) -> None:
        self.streams = LogStreams(copy.target.kubectl)
        self._target = copy.target
        self._copy = copy
        self._folder = copy.folder
        self._held: HeldResults | None = None  # None until the workload was seen
        self._last: tuple[Snapshot, Verdict] | None = None
        self._files: dict[tuple[str, str], Path] = {}  # of the logs, by the uid of the pod and the container

    def begin(self, pods: Sequence[Object]) -> None:
        """Begin with the logs of pods that the watch has seen."""
        for pod in self._target.manifests.kind.listed(pods) if self._held else ():
            if _NAME.fullmatch(name(pod)):
                self.streams.follow(pod)

    def read(self, snapshot: Snapshot, verdict: Verdict) -> None:
        """Save new lines of the logs, and the results of held pods; first the manifests and the values."""
        with _explained(self._folder):
            if self._held is None:
                self._folder /= f"{self._target.manifests.name}/{created(snapshot.workload).strftime(_TIME)}"
                self._copy = replace(self._copy, folder=self._folder / "output")
                self._held = HeldResults(self._copy)
                _write_files(self._folder, _inputs_of(self._target))
            self._last = snapshot, verdict
            self._follow(snapshot)
            self._save(self.streams.parts())
            self._held.read(snapshot)

    def finish(self) -> Recorded | None:
        """Save the rest of the logs, copy the results, and write the verdict; None if the workload was not seen."""
        if self._last is None or self._held is None:
            return None
        snapshot, verdict = self._last
        self.read(snapshot, verdict)
        with _explained(self._folder):
            no_logs = self._finish_logs(snapshot)
        results, no_results = self._copy_results(self._held)
        errors = tuple(error for error in (no_results, no_logs) if error)
        answer = {
            "package": self._target.package.name,
            "version": self._target.package.version,
            **status_from(self._target, snapshot, verdict).as_json(),
            "created": created(snapshot.workload).isoformat(),
            "recorded": snapshot.now.isoformat(),
            "results": [result.as_json() for result in results],
            "missing": list(map(str, errors)),
        }
        with _explained(self._folder):
            text = json.dumps(answer, indent=2, ensure_ascii=False)
            _write_files(self._folder, {VERDICT: f"{text}\n".encode()})
        return Recorded(self._folder, len(self._files), results, errors)

    def _follow(self, snapshot: Snapshot) -> None:
        for log in _logs_of(self._target, snapshot.pods):
            self._path(log)
            self.streams.follow(log.pod, log.container)
        self.streams.wait(1.0)

    def _finish_logs(self, snapshot: Snapshot) -> ClusterError | None:
        """Save the rest of all logs, and return why they are incomplete. Raises OSError."""
        self._follow(snapshot)
        self._save(self.streams.finish())
        error = self.streams.error
        followed = {(uid(log.pod), log.container) for log in self.streams.logs}
        for log in _logs_of(self._target, snapshot.pods):
            if (uid(log.pod), log.container) not in followed:
                try:
                    self._save(LogPart(log, block) for block in read_once(log))
                except ClusterError as refusal:
                    error = refusal
        return error

    def _save(self, parts: Iterable[LogPart]) -> None:
        for part in parts:
            if isinstance(part.content, bytes):
                with self._path(part.log).open("ab") as file:
                    file.write(part.content[: _MOST_BYTES - file.tell()])

    def _path(self, log: ContainerLog) -> Path:
        """Return the file of a log: a pod that is created again may have the name of an earlier one."""
        key = uid(log.pod), log.container
        if key not in self._files:
            path, number = self._folder / _LOGS / name(log.pod) / f"{log.container}.log", 2
            while path in self._files.values():
                path, number = path.with_name(f"{log.container}.{number}.log"), number + 1
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            self._files[key] = path
        return self._files[key]

    def _copy_results(self, held: HeldResults) -> tuple[tuple[Results, ...], MlpackError | None]:
        """Copy the results unless held pods had them, and return the copies, or the reason why there are none."""
        if self._target.manifests.kind.serves:
            return (), None
        if held.copies or held.error:
            return tuple(held.copies.values()), held.error
        try:
            return tuple(self._copy.copies()), None
        except ClusterError as error:
            return (), error


class RunRecords:
    """The records of all workloads of an overlay, whose logs are read until the block ends; see `RunRecord`."""

    def __init__(self, target: Target, folder: Path, *, patience: float, tell: Tell) -> None:
        self._records = [RunRecord(ResultsCopy(one, folder, patience, tell)) for one in target.per_workload]
        self.begin = self._records[0].begin  # with logs of the main workload's pods that a watch has seen
        self.watch = PodWatch(target.kubectl, self.begin)

    def read(self, update: Update) -> None:
        """Save what is new in an update on the workloads."""
        for record, part in zip(self._records, update.per_workload or (update,), strict=True):
            if part.snapshot is not None and not part.silence:
                record.read(part.snapshot, part.verdict)

    def finish(self) -> Iterator[Recorded]:
        """Finish the record of each workload that was seen; see `RunRecord.finish`."""
        yield from filter(None, (record.finish() for record in self._records))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for record in self._records:
            record.streams.__exit__()


def _inputs_of(target: Target) -> dict[str, bytes]:
    """Return the values and the applied manifests, without the values of Secrets, which no file may pass on."""
    items = []
    for item in target.manifests.objects:
        keys = ("data", "stringData") if item["kind"] == "Secret" else ()
        items.append({**item, **{key: dict.fromkeys(item[key], "(not recorded)") for key in keys if item.get(key)}})
    env = layout.env(target.overlay)
    values = target.package.reader.read(env, _MAX_ENV_BYTES)
    return {"manifests.yaml": yamlio.dump(items).encode(), PurePosixPath(env).name: values}


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with atomic.file(folder / path) as file:
            file.write(content)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into a ToolError."""
    try:
        yield
    except OSError as error:
        hint = "free some space, and run the same command again" if error.errno == errno.ENOSPC else None
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None

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
from typing import Any, Self

from packager.base import atomic, yamlio
from packager.base.errors import ClusterError, MlpackError, ToolError, reason
from packager.base.process import Tell
from packager.cluster.hold import HeldResults
from packager.cluster.logreader import ContainerLog, LogPart, LogStreams, read_once
from packager.cluster.podwatch import PodWatch
from packager.cluster.results import Results, ResultsCopy
from packager.cluster.status import curves_of, status_from
from packager.cluster.target import Target
from packager.cluster.workload_watch import Update
from packager.diagnosis.curves.points import Curve
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
_CHUNK = 1 << 20

# Names of pods and containers are DNS names (RFC 1123); others would not come from Kubernetes.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished record."""

    folder: Path
    logs: int  # their number
    curves: tuple[Curve, ...]  # the numbers in the logs
    results: tuple[Results, ...]  # those that were copied
    no_results: MlpackError | None = None  # why none were copied; None if they were, or the workload has none
    no_logs: MlpackError | None = None  # why logs are incomplete; None if all were read


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

    def __init__(self, copy: ResultsCopy, snapshot: Snapshot) -> None:
        """Write the manifests and the values. Raises OSError."""
        self.streams = LogStreams(copy.target.kubectl)
        self._target = copy.target
        self._folder = _folder_of(copy.folder, copy.target, snapshot)
        self._copy = replace(copy, folder=self._folder / "output")
        self._held = HeldResults(self._copy)
        self._files: dict[tuple[str, str], Path] = {}  # of the logs, by the uid of the pod and the container
        _write_files(self._folder, _inputs_of(copy.target))

    def begin(self, pods: Sequence[Object]) -> None:
        """Begin with the logs of pods that the watch has seen."""
        for pod in self._target.manifests.kind.listed(pods):
            if _NAME.fullmatch(name(pod)):
                self.streams.follow(pod)

    def read(self, snapshot: Snapshot) -> None:
        """Save new lines of the logs, and the results of held pods."""
        with _explained(self._folder):
            self._follow(snapshot)
            self._save(self.streams.parts())
            self._held.read(snapshot)

    def finish(self, snapshot: Snapshot, verdict: Verdict) -> Recorded:
        """Save the rest of the logs, copy the results, and write the verdict."""
        self.read(snapshot)
        with _explained(self._folder):
            no_logs = self._finish_logs(snapshot)
        results, no_results = self._copy_results()
        with _explained(self._folder):
            files = self._files.values()
            curves = curves_of((path.parent.name, _chunks(path)) for path in files)
            missing = [str(error) for error in (no_results, no_logs) if error]
            extra = {"results": [answer.as_json() for answer in results], "missing": missing}
            _write_verdict(self._folder, self._target, snapshot, verdict, extra)
        return Recorded(self._folder, len(files), curves, results, no_results, no_logs)

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

    def _copy_results(self) -> tuple[tuple[Results, ...], MlpackError | None]:
        """Copy the results unless held pods had them, and return the copies, or the reason why there are none."""
        if self._target.manifests.kind.serves:
            return (), None
        if self._held.copies or self._held.error:
            return tuple(self._held.copies.values()), self._held.error
        try:
            if copies := tuple(self._copy.by_index()):
                return copies, None
            with self._copy.of_worker() as answer:
                return (answer,), None
        except ClusterError as error:
            return (), error


class RunRecords:
    """The records of all workloads of an overlay, whose logs are read until the block ends; see `RunRecord`."""

    def __init__(self, target: Target, folder: Path, *, patience: float, tell: Tell) -> None:
        self._copies = [ResultsCopy(one, folder, patience, tell) for one in target.per_workload]
        self._records: dict[int, RunRecord] = {}
        self._last: dict[int, tuple[Snapshot, Verdict]] = {}
        self.watch = PodWatch(target.kubectl, self.begin)  # a watch of the main workload that begins with its logs

    def begin(self, pods: Sequence[Object]) -> None:
        """Begin with the logs of pods of the main workload that a watch has seen, if its record has begun."""
        if main := self._records.get(0):
            main.begin(pods)

    def read(self, update: Update) -> None:
        """Save what is new in an update on the workloads."""
        parts = update.per_workload or (update,)
        for index, (copy, part) in enumerate(zip(self._copies, parts, strict=True)):
            if part.snapshot is None or part.silence:
                continue
            if index not in self._records:
                with _explained(copy.folder):
                    self._records[index] = RunRecord(copy, part.snapshot)
            self._records[index].read(part.snapshot)
            self._last[index] = part.snapshot, part.verdict

    def finish(self) -> Iterator[Recorded]:
        """Finish the record of each workload that was seen; see `RunRecord.finish`."""
        for index, (snapshot, verdict) in self._last.items():
            yield self._records[index].finish(snapshot, verdict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for record in self._records.values():
            record.streams.__exit__()


def _folder_of(records: Path, target: Target, snapshot: Snapshot) -> Path:
    return records / target.manifests.name / created(snapshot.workload).strftime(_TIME)


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


def _write_verdict(folder: Path, target: Target, snapshot: Snapshot, verdict: Verdict, extra: dict[str, Any]) -> None:
    answer = {
        "package": target.package.name,
        "version": target.package.version,
        **status_from(target, snapshot, verdict).as_json(),
        "created": created(snapshot.workload).isoformat(),
        "recorded": snapshot.now.isoformat(),
        **extra,
    }
    _write_files(folder, {VERDICT: f"{json.dumps(answer, indent=2, ensure_ascii=False)}\n".encode()})


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into a ToolError."""
    try:
        yield
    except OSError as error:
        hint = "free some space, and run the same command again" if error.errno == errno.ENOSPC else None
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None

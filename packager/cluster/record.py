"""Records a run in a local folder: its logs, manifests, values, verdict, results and the numbers in its logs.

The folder is `DIR/WORKLOAD/TIME`, with the time at which the workload was created in the cluster. So a later command on
the same run continues its record.
"""

from __future__ import annotations

import errno
import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base import atomic, jsonio, yamlio
from packager.base.errors import ClusterError, ToolError, reason
from packager.cluster.heldresults import HeldResults
from packager.cluster.podwatch import PodWatch
from packager.cluster.results import copied, copied_by_index
from packager.cluster.savedlogs import SavedLogs
from packager.cluster.status import status_from
from packager.diagnosis.curves.figure import figures
from packager.diagnosis.curves.points import added, lines_of, measured
from packager.diagnosis.curves.svg import document
from packager.kubernetes.objects import created
from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from packager.base.errors import MlpackError
    from packager.base.progress import Tell
    from packager.cluster.follow import Update
    from packager.cluster.results import Results
    from packager.cluster.target import Target
    from packager.diagnosis.curves.points import Curve
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Verdict

VERDICT = "verdict.json"
"""The file that is written last: a record without it is of a run that was not followed to its end."""

_MAX_ENV_BYTES = 1 << 20
_MAX_VERDICT_BYTES = 16 << 20
LOGS = "logs"
"""The folder of the logs, in that of the record."""

_OUTPUT = "output"
_CHUNK = 1 << 20
TIME = "%Y%m%dT%H%M%SZ"
"""The form of the time that a record is named after."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished record.

    Attributes:
        folder: The folder of the record.
        logs: The number of logs.
        curves: The numbers in the logs.
        results: The results that were copied.
        no_results: The reason why no results were copied; None if they were, or the workload has none.
        no_logs: The reason why logs are incomplete; None if all were read.
    """

    folder: Path
    logs: int
    curves: tuple[Curve, ...]
    results: tuple[Results, ...]
    no_results: MlpackError | None = None
    no_logs: MlpackError | None = None


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that was recorded in a local folder.

    Attributes:
        folder: The folder of the record.
        workload: The workload's name for kubectl.
        created: The time at which the workload was created, by the server's clock.
        phase: The phase when the record was finished.
        digest: The digest of the package that was deployed.
        version: The version of that package; None if it has none.
    """

    folder: Path
    workload: str
    created: str
    phase: str
    digest: str | None
    version: str | None

    def as_json(self) -> dict[str, str | None]:
        """Return the fields for `-o json`."""
        return {
            "folder": str(self.folder),
            "workload": self.workload,
            "created": self.created,
            "phase": self.phase,
            "digest": self.digest,
            "version": self.version,
        }


def past_runs(folder: Path, package: str) -> tuple[PastRun, ...]:
    """Return the recorded runs of a package, the newest first; none if there is no such folder.

    A record that cannot be read is left out: the folder may contain files of other programs.
    """
    runs = (_past_run(verdict, package) for verdict in sorted(folder.glob(f"*/*/{VERDICT}")))
    return tuple(sorted((run for run in runs if run), key=lambda run: run.created, reverse=True))


def _past_run(path: Path, package: str) -> PastRun | None:
    try:
        with path.open("rb") as file:
            answer = jsonio.read(file.read(_MAX_VERDICT_BYTES))
    except (OSError, jsonio.JsonError):
        return None
    texts = {key: value for key, value in answer.items() if isinstance(value, str)} if isinstance(answer, dict) else {}
    if texts.get("package") != package or not {"workload", "created", "phase"} <= texts.keys():
        return None
    digest, version = texts.get("digest"), texts.get("version")
    return PastRun(path.parent, texts["workload"], texts["created"], texts["phase"], digest, version)


class RunRecord:
    """The record of one run, which grows while the run is followed.

    Args:
        target: The opened overlay of the workload.
        folder: The folder of all records.
        patience: The longest wait in seconds for data of the results; 0 for no limit.
        tell: Receives messages for the user during a copy.

    Attributes:
        watch: Keeps the logs of pods that are deleted during the run, for a follower of the workload.
    """

    def __init__(self, target: Target, folder: Path, patience: float, tell: Tell) -> None:
        self.watch = PodWatch(target.kubectl, target.manifests.kind.listed)
        self._patience = patience
        self._tell = tell
        self._held: HeldResults | None = None
        self._target = target
        self._all = folder
        self._folder: Path | None = None
        self._logs: SavedLogs | None = None

    def read(self, snapshot: Snapshot, *, is_last: bool = False) -> None:
        """Save new lines of the logs, and the results of held pods; first, also the manifests and the values.

        Raises:
            ToolError: The folder cannot be written.
        """
        with _explained(self._all):
            if self._logs is None:
                self._folder = self._begin(snapshot)
                target = self._target
                self._logs = SavedLogs(target.kubectl, target.manifests.kind, self.watch, self._folder / LOGS)
                self._held = HeldResults(target, self._folder / _OUTPUT, self._patience, self._tell)
            self._logs.read(snapshot, is_last=is_last)
            assert self._held is not None
            self._held.read(snapshot)

    def _begin(self, snapshot: Snapshot) -> Path:
        """Write the manifests and the values into the folder of the record, and return it."""
        target = self._target
        folder = self._all / target.manifests.name / created(snapshot.workload).strftime(TIME)
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in (("manifests.yaml", manifests_of(target)), values_of(target)):
            with atomic.file(folder / path) as file:
                file.write(content)
        return folder

    def finish(self, snapshot: Snapshot, verdict: Verdict) -> Recorded:
        """Save the rest of the logs, copy the results, and write the verdict.

        Args:
            snapshot: The last snapshot.
            verdict: The verdict on the workload.

        Raises:
            ToolError: The folder cannot be written.
        """
        self.read(snapshot, is_last=True)
        assert self._folder is not None
        assert self._logs is not None
        results, error = self._copy(self._folder / _OUTPUT)
        with _explained(self._folder):
            curves = self._write_numbers(self._folder, self._logs.files)
            times = {"created": created(snapshot.workload).isoformat(), "recorded": snapshot.now.isoformat()}
            answer = {
                "package": self._target.package.name,
                "version": self._target.package.version,
                **status_from(self._target, snapshot, verdict).as_json(),
                **times,
                "results": [answer.as_json() for answer in results],
                "missing": [str(missing) for missing in (error, self._logs.error) if missing],
            }
            with atomic.file(self._folder / VERDICT) as file:
                file.write(f"{json.dumps(answer, indent=2, ensure_ascii=False)}\n".encode())
        return Recorded(self._folder, len(self._logs.files), curves, results, error, self._logs.error)

    def _copy(self, output: Path) -> tuple[tuple[Results, ...], MlpackError | None]:
        """Copy the results unless held pods had them, and return the copies, or the reason why there are none."""
        assert self._held is not None
        if self._target.manifests.kind.serves:
            return (), None
        if self._held.copies or self._held.error:
            return tuple(self._held.copies.values()), self._held.error
        patience, tell = self._patience, self._tell
        try:
            if copies := tuple(copied_by_index(self._target, output, patience=patience, tell=tell)):
                return copies, None
            with copied(self._target, output, patience=patience, tell=tell) as answer:
                return (answer,), None
        except ClusterError as error:
            return (), error

    def _write_numbers(self, folder: Path, logs: Sequence[Path]) -> tuple[Curve, ...]:
        """Write the numbers in the logs as lines of JSON and as curves, if there are any."""
        curves: dict[tuple[str, str], Curve] = {}
        with atomic.file(folder / "metrics.jsonl") as file:
            for log in logs:
                pod = log.parent.name
                for line in lines_of(_chunks(log)):
                    if point := measured(line):
                        row = {"pod": pod, "container": log.stem, "step": point[0], **point[1]}
                        file.write(f"{jsonio.compact(row)}\n".encode())
                curves = added(curves, pod, lines_of(_chunks(log)))
        with atomic.file(folder / "metrics.svg") as file:
            file.write(document(figures(list(curves.values()))).encode())
        return tuple(curves.values())


class RunRecords:
    """The records of all workloads of an overlay.

    Args:
        target: The opened overlay.
        folder: The folder of all records.
        patience: The longest wait in seconds for data of the results; 0 for no limit.
        tell: Receives messages for the user during a copy.

    Attributes:
        watch: Keeps the logs of the main workload's deleted pods, for a follower.
    """

    def __init__(self, target: Target, folder: Path, *, patience: float, tell: Tell) -> None:
        self._records = [RunRecord(one, folder, patience, tell) for one in target.per_workload]
        self._last: dict[int, tuple[Snapshot, Verdict]] = {}
        self.watch = self._records[0].watch

    def read(self, update: Update) -> None:
        """Save what is new in an update on the workloads. Raises ToolError."""
        parts = update.per_workload or (update,)
        for index, (record, part) in enumerate(zip(self._records, parts, strict=True)):
            if part.snapshot is not None and not part.silence:
                record.read(part.snapshot)
                self._last[index] = part.snapshot, part.verdict

    def finish(self) -> Iterator[Recorded]:
        """Finish the record of each workload that was seen; see `RunRecord.finish`."""
        for index, (snapshot, verdict) in self._last.items():
            yield self._records[index].finish(snapshot, verdict)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def manifests_of(target: Target) -> bytes:
    """Return the applied manifests, without the values of Secrets."""
    return yamlio.dump(map(_without_values, target.manifests.objects)).encode()


def values_of(target: Target) -> tuple[str, bytes]:
    """Return the name and the content of the file with the values of the overlay."""
    values = layout.env(target.overlay)
    return PurePosixPath(values).name, target.package.reader.read(values, _MAX_ENV_BYTES)


def _without_values(item: Object) -> Object:
    """Return an object; a Secret without its values, which belong into no file that people pass on."""
    if item["kind"] != "Secret":
        return item
    hidden = {key: dict.fromkeys(item[key], "(not recorded)") for key in ("data", "stringData") if item.get(key)}
    return {**item, **hidden}


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    """Turn errors of the file system into a ToolError."""
    try:
        yield
    except OSError as error:
        hint = "free some space, and run the same command again" if error.errno == errno.ENOSPC else None
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None

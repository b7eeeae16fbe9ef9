"""Keeps a short record of each followed run in a folder of the user's own, and removes old ones.

A record is `WORKLOAD/TIME`, with files named as in `packager.cluster.record`, without results, and with the ends of
logs only. Only files that a record lists as its own are removed.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packager.base import atomic, jsonio, paths
from packager.base.errors import ClusterError, MlpackError, ToolError, reason
from packager.cluster.logreader import LogReader
from packager.cluster.record import LOGS, TIME, VERDICT, manifests_of, values_of
from packager.cluster.savedlogs import FILE_NAME
from packager.cluster.status import status_from
from packager.kubernetes.objects import container_statuses, created, name

if TYPE_CHECKING:
    from packager.cluster.follow import Update
    from packager.cluster.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Verdict

MOST_RECORDS = 100
"""The number of records that are kept."""

MOST_LOGS = 32
"""The number of containers whose logs are kept."""

LOG_BYTES = 1 << 20
"""The end of a log that is kept."""

_READ_BYTES = 64 << 20
_LOG_SECONDS = 5.0
_VERDICT_BYTES = 16 << 20
_FILES = re.compile(rf"(logs/{FILE_NAME}/{FILE_NAME}\.log|[a-z]+\.(yaml|env|json))")


def keep(target: Target, update: Update, folder: Path) -> MlpackError | None:
    """Record the workloads of an overlay, and remove the oldest records of all overlays.

    Args:
        target: The opened overlay.
        update: The last update on its workloads.
        folder: The folder of all records, which is created for its owner alone.

    Returns:
        The reason why a record is missing, which does not make the run a failed one; None if all are written.
    """
    parts = update.per_workload or (update,)
    try:
        paths.make_private(folder)
        for one, part in zip(target.per_workload, parts, strict=True):
            if part.snapshot is not None and not part.silence:
                _record(one, part.snapshot, part.verdict, folder)
        _prune(folder)
    except MlpackError as error:
        return error
    except OSError as error:
        return ToolError(f"{folder} cannot be written: {reason(error)}")
    return None


def _record(target: Target, snapshot: Snapshot, verdict: Verdict, records: Path) -> None:
    folder = records / target.manifests.name / created(snapshot.workload).strftime(TIME)
    folder.mkdir(parents=True, exist_ok=True)
    files = {"manifests.yaml": manifests_of(target), **dict([values_of(target)])}
    missing: list[str] = []
    for pod, container in _containers(snapshot):
        try:
            log = _end_of_log(target, pod, container)
        except ClusterError as error:
            missing.append(str(error))
        else:
            files[f"{LOGS}/{name(pod)}/{container}.log"] = log
    answer = {
        "package": target.package.name,
        "version": target.package.version,
        **status_from(target, snapshot, verdict).as_json(),
        "created": created(snapshot.workload).isoformat(),
        "recorded": snapshot.now.isoformat(),
        "files": sorted(files),
        "missing": missing,
    }
    files[VERDICT] = f"{json.dumps(answer, indent=2, ensure_ascii=False)}\n".encode()
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        with atomic.file(folder / path) as file:
            file.write(content)


def _containers(snapshot: Snapshot) -> list[tuple[Object, str]]:
    """Return the containers whose logs are kept: those of Kubernetes' names, which cannot lead out of the folder."""
    named = [(pod, str(status["name"])) for pod in snapshot.pods for status in container_statuses(pod)]
    is_name = re.compile(FILE_NAME).fullmatch
    return [(pod, container) for pod, container in named if is_name(name(pod)) and is_name(container)][:MOST_LOGS]


def _end_of_log(target: Target, pod: Object, container: str) -> bytes:
    log, size = bytearray(), 0
    for chunk in LogReader(target.kubectl, pod, container).read(pod, patience=_LOG_SECONDS):
        log += chunk
        size += len(chunk)
        if len(log) > 2 * LOG_BYTES:
            del log[:-LOG_BYTES]
        if size > _READ_BYTES:
            break
    return bytes(log[-LOG_BYTES:])


def _prune(folder: Path) -> None:
    """Remove the oldest records. A folder whose verdict lists no files was not made by `keep`, and stays."""
    verdicts = sorted(folder.glob(f"*/*/{VERDICT}"), key=lambda path: path.parent.name, reverse=True)
    for verdict in verdicts[MOST_RECORDS:]:
        files = _files(verdict)
        if files is None:
            continue
        for path in (*files, verdict):
            path.unlink(missing_ok=True)
        for path in sorted(verdict.parent.glob("logs/*"), reverse=True):
            _remove_empty(path)
        for path in (verdict.parent / LOGS, verdict.parent, verdict.parent.parent):
            _remove_empty(path)


def _files(verdict: Path) -> list[Path] | None:
    """Return the files that a record lists as its own; None if it has no list, so `keep` has not made it."""
    try:
        with verdict.open("rb") as stream:
            answer = jsonio.read(stream.read(_VERDICT_BYTES))
    except jsonio.JsonError:
        return None
    listed = answer.get("files") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        return None
    names = (path for path in listed if isinstance(path, str) and _FILES.fullmatch(path))
    return [verdict.parent / path for path in names if ".." not in PurePosixPath(path).parts]


def _remove_empty(folder: Path) -> None:
    """Remove a folder unless there is something else in it."""
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()

"""Copies OUTPUT_DIR of a deployed package into a local folder."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, ToolError, UsageError, reason
from packager.cluster.copying import RemoteFolder
from packager.cluster.output import output_of, reader
from packager.cluster.resumable import copy_folder
from packager.cluster.target import pod_of_index
from packager.kubernetes.objects import is_running, name
from packager.kubernetes.stopped import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from packager.base.progress import Tell
    from packager.cluster.copying import Copied
    from packager.cluster.output import Output
    from packager.cluster.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Results:
    """The files that were copied.

    Attributes:
        place: The pod, its container, and the folder in it.
        folder: The local folder.
        copied: The files that arrived, and the remarks of tar.
    """

    place: RemoteFolder
    folder: Path
    copied: Copied

    @property
    def is_complete(self) -> bool:
        """Whether tar reports that every file was copied unchanged."""
        return self.copied.remarks.is_complete

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        received, remarks = self.copied.received, self.copied.remarks
        return {
            "pod": self.place.pod,
            "path": self.place.path,
            "folder": str(self.folder),
            "files": received.files,
            "bytes": received.size,
            "unchanged": self.copied.unchanged,
            "complete": self.is_complete,
            "unchecked": self.copied.unchecked,
            "skipped": list(received.skipped),
            "skippedUnnamed": received.unnamed,
            "leftOut": list(remarks.left_out),
            "unread": list(remarks.unread),
            "changed": list(remarks.changed),
            "gone": list(remarks.gone),
            "busy": list(self.copied.busy),
            "others": list(remarks.others),
        }


def has_lasting_results(target: Target) -> bool:
    """Return whether the results of the workload are kept when its pods are deleted."""
    manifests = target.manifests
    try:
        output = output_of(manifests.kind.pod_template(manifests.workload), manifests.objects)
    except ClusterError:
        return False
    return output.outlives_pods


@contextmanager
def copied(
    target: Target, folder: Path, *, worker: int | None = None, patience: float, tell: Tell
) -> Iterator[Results]:
    """Copy OUTPUT_DIR, during the run or after it; with several workers, from worker 0.

    A temporary pod that reads a storage is deleted when the block ends; an error of this deletion is reported last.

    Args:
        target: The opened overlay of the workload.
        folder: The folder to copy to; created when missing. Files of the same name are replaced.
        worker: The index of the worker; None for worker 0, or for any running worker if they share a storage.
        patience: The longest wait in seconds without receiving data; 0 for no limit.
        tell: Receives messages for the user during the copy.

    Raises:
        UsageError: There is no such worker, or the workload serves and has no results.
        ClusterError: The results were deleted, or cannot be read.
        TimedOutError: No data arrived within `patience`.
        ToolError: The folder cannot be written.
    """
    if target.manifests.kind.serves:
        raise UsageError(f"{target.shown} is a service and has no results", hint=target.command("logs"))
    snapshot = target.observe(events=False)
    template = target.manifests.kind.pod_template(snapshot.workload if snapshot else target.manifests.workload)
    output = output_of(template, target.manifests.objects)
    if snapshot is not None and (place := _running_pod(target, snapshot, output, worker)):
        yield _copy(target, place, folder, patience, tell)
        return
    if not output.outlives_pods:
        raise _gone_error(target, snapshot, output)
    tell(f"no pod is running: starting a temporary pod to read {output.storage}")
    with reader(target.kubectl, target.manifests.name, template, output, tell) as pod:
        yield _copy(target, RemoteFolder(pod, "reader", output.path), folder, patience, tell)


def copied_by_index(target: Target, folder: Path, *, patience: float, tell: Tell) -> Iterator[Results]:
    """Copy OUTPUT_DIR of each running index into a subfolder named after it, and yield each result.

    Nothing is yielded for a workload without indexes, and for one whose pods share a storage: use `copied` for these.

    Args:
        target: The opened overlay of the workload.
        folder: The folder that will contain the subfolders.
        patience: The longest wait in seconds without receiving data; 0 for no limit.
        tell: Receives a message about each ended index, whose results were deleted.

    Raises:
        ClusterError: The results cannot be read.
        TimedOutError: No data arrived within `patience`.
        ToolError: The folder cannot be written.
    """
    kind, snapshot = target.manifests.kind, target.observe(events=False)
    if snapshot is None or not kind.indexes(snapshot.workload):
        return
    output = output_of(kind.pod_template(snapshot.workload), target.manifests.objects)
    if output.outlives_pods:
        return
    pods = kind.indexed(snapshot.pods)
    running = [index for index, pod in pods.items() if is_running(pod)]
    if ended := [str(index) for index, pod in pods.items() if has_ended(pod)]:
        tell(f"no results of the indexes that have ended: {', '.join(ended)}")
    for index in running:
        yield _copy(target, _folder_in(pods[index], output), folder / str(index), patience, tell)


def copied_from_held(  # noqa: PLR0913 - two of them say how long to wait, and what the user sees
    target: Target, snapshot: Snapshot, pod: Object, folder: Path, *, patience: float, tell: Tell
) -> Results | None:
    """Copy OUTPUT_DIR while a pod is held; None if the results are in another pod, which is held as well.

    Args:
        target: The opened overlay of the workload.
        snapshot: The state of the workload.
        pod: The held pod: one with results, or a launcher, whose workers have them.
        folder: The folder to copy to; that of an index is a subfolder named after it.
        patience: The longest wait in seconds without receiving data; 0 for no limit.
        tell: Receives messages for the user during the copy.

    Raises:
        ClusterError: The results cannot be read.
        TimedOutError: No data arrived within `patience`.
        ToolError: The folder cannot be written.
    """
    kind = target.manifests.kind
    output = output_of(kind.pod_template(snapshot.workload), target.manifests.objects)
    for index, indexed in kind.indexed(snapshot.pods).items():
        if name(indexed) == name(pod):
            return _copy(target, _folder_in(pod, output), folder / str(index), patience, tell)
    place = _running_pod(target, snapshot, output, None)
    if place is None:
        raise ClusterError(f"no pod with the results of {target.shown} is running", hint=target.command("status"))
    is_elsewhere = place.pod != name(pod) and name(pod) in map(name, kind.workers(snapshot.pods))
    return None if is_elsewhere else _copy(target, place, folder, patience, tell)


def _running_pod(target: Target, snapshot: Snapshot, output: Output, worker: int | None) -> RemoteFolder | None:
    """Return the folder of the results in a running pod; None if no suitable pod runs."""
    kind = target.manifests.kind
    if worker is not None and kind.indexes(snapshot.workload):
        pod = pod_of_index(kind, snapshot, worker)
        return _folder_in(pod, output) if pod and is_running(pod) else None
    workers = kind.workers(snapshot.pods)
    if worker is not None and workers and worker >= len(workers):
        raise UsageError(f"worker {worker} not found", hint=f"there are 0 to {len(workers) - 1}")
    main = kind.main(snapshot.pods)
    candidates: list[Object] = (
        list(kind.indexed(snapshot.pods).values()) or workers or ([main] if main and not kind.has_workers else [])
    )
    if worker is not None:
        candidates = candidates[worker : worker + 1]
    elif not output.outlives_pods:
        candidates = candidates[:1]
    for pod in candidates:
        if is_running(pod):
            return _folder_in(pod, output)
    return None


def _folder_in(pod: Object, output: Output) -> RemoteFolder:
    return RemoteFolder(name(pod), str(output.container["name"]), output.path)


def _copy(target: Target, place: RemoteFolder, folder: Path, patience: float, tell: Tell) -> Results:
    try:
        return Results(place, folder, copy_folder(target.kubectl, place, folder, patience=patience, tell=tell))
    except OSError as error:
        hint = (
            "the files copied so far are kept; free some space and run it again"
            if error.errno == errno.ENOSPC
            else None
        )
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None


def _gone_error(target: Target, snapshot: Snapshot | None, output: Output) -> ClusterError:
    if snapshot is None:
        return ClusterError(
            f"{target.shown} not found: what it wrote to {output.storage} was deleted with its pods",
            hint=target.command("deploy"),
        )
    if target.manifests.kind.ending(snapshot) is None:
        return ClusterError(f"{target.shown} is not running yet", hint=target.command("status"))
    return ClusterError(
        f"{target.shown} has ended, and its results were deleted with its pods: OUTPUT_DIR is on {output.storage}",
        hint="copy them while it is running, or use persistent storage: mlpack configure --storage",
    )

"""Finds where a workload writes its results, and copies OUTPUT_DIR into a local folder."""

import errno
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packager.base import values
from packager.base.errors import ClusterError, ToolError, UsageError, reason
from packager.base.paths import argument
from packager.base.process import Tell
from packager.base.values import Value
from packager.cluster.copy_from_pod import Pull, compare_for_pull, pull
from packager.cluster.file_lists import RemoteFolder, with_retries
from packager.cluster.manifests import Manifests
from packager.cluster.shell import BrokenOffError, ContainerShell, pod_end
from packager.cluster.target import Target, pods_by_index
from packager.cluster.temporary_pod import CONTAINER, temporary_pod
from packager.kubernetes.objects import Object, is_running, name
from packager.kubernetes.pods import has_ended
from packager.kubernetes.snapshot import Snapshot
from packager.package.options import OPTIONS
from packager.workloads.pods import outlives_pods, writes_to_claim


@dataclass(frozen=True, slots=True)
class Output:
    """The place of a workload's results."""

    path: str  # OUTPUT_DIR, in the container
    container: Object  # the container that writes the results, from the PodSpec
    volume: Object | None  # the volume that contains OUTPUT_DIR; None for the container's own file system
    mounts: tuple[Object, ...] = ()  # the container's mounts of the volume

    @property
    def outlives_pods(self) -> bool:
        """Whether the results outlive the pods."""
        return self.volume is not None and outlives_pods(self.volume)

    @property
    def storage(self) -> str:
        """The name of the storage of the results, for messages."""
        if self.volume is None:
            return "the container's own file system"
        return storage_of(self.volume, self.mounts[0] if self.mounts else {})


def storage_of(volume: Object, mount: Object) -> str:
    """Return the name of a mounted volume for messages: `the claim results`, `the folder resnet50 of nfs`."""
    claim = volume.get("persistentVolumeClaim")
    name = f"the claim {claim['claimName']}" if claim else next(key for key in volume if key != "name")
    folder = mount.get("subPath", ".")
    return name if folder == "." else f"the folder {folder} of {name}"


def output_of(pod_spec: Object, objects: Sequence[Object]) -> Output:
    """Return the place to which the pods of a workload write.

    `objects` are those that are applied with it, including the ConfigMap of mlops.env.
    """
    values = [item.get("data", {}).get("OUTPUT_DIR") for item in objects if item["kind"] == "ConfigMap"]
    path = next((value for value in values if value), None)
    if path is None:
        raise ClusterError("OUTPUT_DIR is not set in mlops.env")
    path = str(PurePosixPath("/") / path)  # the kubelet mounts a relative path below the root
    container = pod_spec["containers"][0]
    mounts = [
        mount
        for mount in container.get("volumeMounts", ())
        if PurePosixPath(path).is_relative_to(PurePosixPath("/") / mount["mountPath"])
    ]
    if not mounts:
        return Output(path, container, None)
    volume_name = max(mounts, key=lambda mount: len(mount["mountPath"]))["name"]
    volume = next(item for item in pod_spec["volumes"] if item["name"] == volume_name)
    return Output(path, container, volume, tuple(mount for mount in mounts if mount["name"] == volume_name))


def lost_with_pods(manifests: Manifests) -> str | None:
    """Return a sentence if the workload's results are deleted when its pods end; None if they stay."""
    if manifests.kind.serves:
        return None
    pod_spec = manifests.kind.pod_template(manifests.workload)
    try:
        output = output_of(pod_spec, manifests.objects)
    except ClusterError:
        return None
    # A workload that a site has added need not write results; one that mounts a writable claim writes them there.
    if output.outlives_pods or writes_to_claim(pod_spec) or (manifests.index and output.volume is None):
        return None
    return f"results are deleted when their pod ends: OUTPUT_DIR is on {output.storage}"


def kept_results(manifests: Manifests) -> str | None:
    """Return a sentence with the place of the workload's results; None if they are deleted with its pods."""
    try:
        output = output_of(manifests.kind.pod_template(manifests.workload), manifests.objects)
    except ClusterError:
        return None
    return f"OUTPUT_DIR is {output.storage}" if output.outlives_pods else None


def lasting_storage(package: Path | str) -> str:
    """Return the command that switches on lasting storage for a package, which is named as the user wrote it."""
    first, *others = (option.name for option in OPTIONS if {"output", "dataset"} <= set(option.places))
    command = shlex.join(["mlpack", "configure", argument(Path(package)), "--storage", first])
    return f"{command} (or {', '.join(others)})"


class Results(Value, frozen=True, rename={"size": "bytes", "unnamed": "skippedUnnamed"}):
    """The files that were copied."""

    pod: str
    path: str  # the folder in the pod
    folder: str
    files: int
    size: int
    unchanged: int  # the number of files that were there already, with the same digests
    skipped: tuple[str, ...]  # links, devices, and names that are not allowed here
    unnamed: int  # the number of further skipped names
    unread: tuple[str, ...]  # messages about files that could not be read
    changed: tuple[str, ...]  # files that changed while they were read, and may be inconsistent
    gone: tuple[str, ...]  # files that were deleted before they were read

    @property
    def is_complete(self) -> bool:
        """Whether every file was copied unchanged."""
        return not (self.unread or self.changed or self.gone)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {**values.as_plain(self), "complete": self.is_complete}


def has_lasting_results(target: Target) -> bool:
    """Return whether the results of the workload are kept when its pods are deleted."""
    return kept_results(target.manifests) is not None


@dataclass(frozen=True, slots=True)
class ResultsCopy:
    """A copy of OUTPUT_DIR, during the run or after it; files of the same name are replaced."""

    target: Target  # the opened overlay of the workload
    folder: Path  # the folder to copy to; created when missing
    patience: float  # the longest wait in seconds without receiving data; 0 for no limit
    tell: Tell  # receives messages for the user

    def copies(self, worker: int | None = None) -> Iterator[Results]:
        """Copy from the worker of this index; by default from worker 0, or from any running one that shares a storage.

        Of a workload with indexes whose pods share no storage, each running index is copied into a subfolder named
        after it. A temporary pod that reads a storage is deleted when the next result is asked for.
        """
        target, tell, kind = self.target, self.tell, self.target.manifests.kind
        if kind.serves:
            raise UsageError(f"{target.shown} is a service and has no results", hint=target.command("logs"))
        snapshot = target.observe(events=False)
        template = kind.pod_template(snapshot.workload if snapshot else target.manifests.workload)
        output = output_of(template, target.manifests.objects)
        container = str(output.container["name"])
        if worker is None and snapshot and kind.indexes(snapshot.workload) and not output.outlives_pods:
            pods = kind.indexed(snapshot.pods)
            if ended := [str(index) for index, pod in pods.items() if has_ended(pod)]:
                tell(f"no results of the indexes that have ended: {', '.join(ended)}")
            running = {index: pod for index, pod in pods.items() if is_running(pod)}
            for index, indexed in running.items():
                yield self._copy(name(indexed), container, output, self.folder / str(index))
            if running:
                return
        chosen = _running_pod(target, snapshot, output, worker) if snapshot else None
        if chosen:
            yield self._copy(name(chosen), container, output, self.folder)
        elif output.volume is None or not output.outlives_pods:
            raise _gone_error(target, snapshot, output)
        else:
            tell(f"no pod is running: starting a temporary pod to read {output.storage}")
            words, mounts, volume = "the pod that reads the results", output.mounts, output.volume
            with temporary_pod(target, template, "results", words, mounts=mounts, volume=volume, tell=tell) as reader:
                yield self._copy(reader, CONTAINER, output, self.folder)

    def of_held(self, snapshot: Snapshot, pod: Object) -> Results | None:
        """Copy while a pod is held: one with results, or a launcher, whose workers have them.

        None is returned if the results are in another pod, which is held as well. Those of an index are copied to a
        subfolder named after it.
        """
        target, kind = self.target, self.target.manifests.kind
        output = output_of(kind.pod_template(snapshot.workload), target.manifests.objects)
        own = [index for index, one in kind.indexed(snapshot.pods).items() if name(one) == name(pod)]
        with_results = pod if own else _running_pod(target, snapshot, output, None)
        if with_results is None:
            raise ClusterError(f"no pod with the results of {target.shown} is running", hint=target.command("status"))
        if name(with_results) != name(pod) and name(pod) in map(name, kind.workers(snapshot.pods)):
            return None
        folder = self.folder / str(own[0]) if own else self.folder
        return self._copy(name(with_results), str(output.container["name"]), output, folder)

    def _copy(self, pod: str, container: str, output: Output, folder: Path) -> Results:
        """Copy a folder of a container; after a broken connection, continue with the files that are missing."""
        kubectl, path = self.target.kubectl, output.path
        remote = RemoteFolder(ContainerShell(kubectl, pod, container, self.patience), path, path, path)

        def attempt() -> Pull:
            work = compare_for_pull(remote, folder, force=True)
            pull(remote, work, folder)
            return work

        def may_continue() -> bool:
            return not pod_end(kubectl, pod)

        try:
            work = with_retries(kubectl, attempt, self.tell, "the copy was interrupted", may_continue)
        except BrokenOffError as error:
            hint = "run it again; the files copied so far are kept"
            raise ClusterError(f"the copy was interrupted: {error}", hint=hint) from None
        except OSError as error:
            is_full = error.errno == errno.ENOSPC
            how = "the files copied so far are kept; free some space and run it again" if is_full else None
            raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=how) from None
        return Results(
            *(pod, path, str(folder), len(work.arrived), work.size_of(work.arrived), len(work.unchanged)),
            *(work.listing.odd, work.listing.unnamed, work.unread, work.changed, work.gone),
        )


def _running_pod(target: Target, snapshot: Snapshot, output: Output, worker: int | None) -> Object | None:
    """Return a running pod with the results; None if no suitable pod runs."""
    kind = target.manifests.kind
    numbered = pods_by_index(kind, snapshot.workload, snapshot.pods, worker)
    main = kind.main(snapshot.pods)
    candidates = list(numbered.values()) or ([main] if main and not kind.has_workers else [])
    if worker is not None:
        candidates = [numbered[worker]] if worker in numbered else candidates[worker:][:1] if not numbered else []
    elif not output.outlives_pods:
        candidates = candidates[:1]
    return next(filter(is_running, candidates), None)


def _gone_error(target: Target, snapshot: Snapshot | None, output: Output) -> ClusterError:
    if snapshot is None:
        message = f"{target.shown} not found: what it wrote to {output.storage} was deleted when its pods ended"
        return ClusterError(message, hint=target.command("deploy"))
    if target.manifests.kind.ending(snapshot) is None:
        return ClusterError(f"{target.shown} is not running yet", hint=target.command("status"))
    return ClusterError(
        f"{target.shown} has ended, and its results were deleted then: OUTPUT_DIR is on {output.storage}",
        hint=f"copy them while it is running, or keep them: {lasting_storage(target.package.source)}",
    )

"""Finds the storage of a workload that outlives its pods, and copies files to and from it through a temporary pod."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from packager.base.errors import ClusterError, ToolError, UsageError, reason
from packager.base.process import Progress, Tell
from packager.cluster.claims import create_workspace, missing_claims
from packager.cluster.copy_from_pod import Pull, compare_for_pull
from packager.cluster.copy_from_pod import pull as pull_files
from packager.cluster.copy_to_pod import Push, commit, compare_for_push, local_folder, send
from packager.cluster.file_lists import TRIES, Listing, RemoteFolder, Result, with_retries
from packager.cluster.results import storage_of
from packager.cluster.shell import BrokenOffError, ContainerShell
from packager.cluster.target import Target
from packager.cluster.temporary_pod import CONTAINER, temporary_pod
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import Object
from packager.workloads.pods import outlives_pods


@dataclass(frozen=True, slots=True)
class LastingStorage:
    """A volume that outlives the pods, and its mount."""

    root: str  # the mount path
    mount: Object  # the container's mount of the volume
    volume: Object
    path: str  # of the folder in it that is used, in the pods

    @property
    def words(self) -> str:
        """The name of the storage in messages: `the folder resnet50 of the claim results`."""
        return storage_of(self.volume, self.mount)


@dataclass(frozen=True, slots=True)
class Session:
    """The storage and the options of a push, a pull or a listing."""

    target: Target  # the opened overlay whose pods use the storage
    storage: LastingStorage
    patience: float  # the longest wait in seconds without receiving data; 0 for no limit
    image: str | None  # the image of the temporary pod; None for the workload's image
    tell: Tell


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a push or a pull."""

    storage: LastingStorage
    folder: Path  # the local folder
    files: tuple[str, ...]  # the paths that were copied; in a dry run, those that would be
    size: int  # the total size of these files in bytes
    unchanged: tuple[str, ...]  # the paths that were there already with the same content
    dry_run: bool  # whether nothing was copied
    pull: Pull | None = None  # what was read; None for a push

    @property
    def changed(self) -> tuple[str, ...]:
        """The paths that changed or were deleted while they were read."""
        return () if self.pull is None or self.dry_run else (*self.pull.changed, *self.pull.gone)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        answer = {
            "storage": self.storage.words,
            "path": self.storage.path,
            "folder": str(self.folder),
            "files": list(self.files),
            "bytes": self.size,
            "unchanged": list(self.unchanged),
            "dryRun": self.dry_run,
        }
        if self.pull is None:
            return answer
        listing, unread = self.pull.listing, list(self.pull.unread)
        skipped = {"skipped": list(listing.odd), "skippedUnnamed": listing.unnamed, "unread": unread}
        return {**answer, "changed": list(self.changed), "complete": not (unread or self.changed), **skipped}


@dataclass(frozen=True, slots=True)
class Listed:
    """The content of a folder on a storage."""

    storage: LastingStorage
    listing: Listing

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "storage": self.storage.words,
            "path": self.storage.path,
            "entries": [
                {"path": entry.path, "type": entry.kind, "bytes": entry.size, "modified": entry.modified}
                for entry in self.listing.entries
            ],
            "skipped": list(self.listing.skipped),
            "skippedUnnamed": self.listing.unnamed,
            "unread": list(self.listing.unread),
        }


def session(target: Target, folder: str | None, *, patience: float, image: str | None, tell: Tell) -> Session:
    """Return the session for a push, a pull or a listing; see `place` for `folder`. Raises UsageError."""
    environment = {}
    for item in target.manifests.objects:
        if item["kind"] == "ConfigMap" and "OUTPUT_DIR" in (item.get("data") or {}):
            environment = {str(key): str(value) for key, value in item["data"].items()}
    pod_spec = target.manifests.kind.pod_template(target.manifests.workload)
    return Session(target, place(folder, storages(pod_spec), environment), patience, image, tell)


def push(session: Session, folder: Path, *, force: bool, dry_run: bool, progress: Progress) -> Copied:
    """Copy a local folder's files to the storage; files with other contents are replaced only with `force`."""
    local = local_folder(folder)
    claim = mapping(session.storage.volume.get("persistentVolumeClaim")).get("claimName")
    is_own = claim and claim == session.target.package.workspace
    if is_own and not dry_run and claim in missing_claims([session.target]):
        create_workspace(session.target, session.tell)

    def attempt(remote: RemoteFolder) -> Push:
        work = compare_for_push(remote, local, force=force)
        if (work.parts or work.empty) and not dry_run:
            with progress("pushing", work.size, unit="bytes") as advance:
                send(remote, work, advance)
            commit(remote, work, force=force)
        return work

    work = _in_pod(session, attempt, writes=not dry_run)
    unchanged = set(work.unchanged)
    files = [file for file in local.files if file.path not in unchanged]
    paths, size = tuple(file.path for file in files), sum(file.size for file in files)
    return Copied(session.storage, folder, paths, size, work.unchanged, dry_run)


def pull(session: Session, folder: Path, *, force: bool, dry_run: bool, progress: Progress) -> Copied:
    """Copy files from the storage to a local folder, which is created if missing."""

    def attempt(remote: RemoteFolder) -> Pull:
        work = compare_for_pull(remote, folder, force=force)
        if not dry_run:
            with progress("pulling", work.size_of(work.pending), unit="bytes") as advance:
                pull_files(remote, work, folder, advance)
        return work

    try:
        work = _in_pod(session, attempt, writes=False)
    except OSError as error:
        hint = "what has arrived is kept: pull again to continue"
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None
    files = tuple(work.pending) if dry_run else tuple(work.arrived)
    return Copied(session.storage, folder, files, work.size_of(files), work.unchanged, dry_run, work)


def ls(session: Session) -> Listed:
    """Return the content of the session's folder. Raises ClusterError, TimedOutError and VerificationError."""
    return Listed(session.storage, _in_pod(session, RemoteFolder.entries, writes=False))


def _in_pod(session: Session, work: Callable[[RemoteFolder], Result], *, writes: bool) -> Result:
    """Return the result of `work` for the folder in a temporary pod; after a broken connection, in another pod."""
    target, storage, tell = session.target, session.storage, session.tell
    pod_spec = target.manifests.kind.pod_template(target.manifests.workload)
    mount, volume = deepcopy(storage.mount), deepcopy(storage.volume)
    if writes:
        for part in (mount, *(source for source in volume.values() if isinstance(source, dict))):
            part.pop("readOnly", None)
    else:
        mount["readOnly"] = True
    words, image = "the temporary pod", session.image

    def attempt() -> Result:
        with temporary_pod(
            target, pod_spec, "workspace", words, mounts=(mount,), volume=volume, tell=tell, image=image
        ) as pod:
            shell = ContainerShell(target.kubectl, pod, CONTAINER, session.patience)
            return work(RemoteFolder(shell, storage.root, storage.path, storage.words))

    try:
        return with_retries(target.kubectl, attempt, tell, "the connection broke off")
    except BrokenOffError as error:
        hint = "run it again: what has arrived is kept"
        raise ClusterError(f"the connection broke off {TRIES} times: {error}", hint=hint) from None


def storages(pod_spec: Object) -> tuple[LastingStorage, ...]:
    """Return the volumes that outlive the pods, in the order in which the main container mounts them.

    If mounts of one volume are nested, only the outermost is returned.
    """
    volumes = {volume["name"]: volume for volume in pod_spec.get("volumes") or ()}
    mounts = [
        (_absolute(mount["mountPath"]), mount, volumes[mount["name"]])
        for mount in pod_spec["containers"][0].get("volumeMounts") or ()
        if mount["name"] in volumes
    ]
    kept = [LastingStorage(path, mount, volume, path) for path, mount, volume in mounts if outlives_pods(volume)]
    return tuple(storage for storage in kept if not any(_is_part(storage, other) for other in kept))


def place(folder: str | None, available: Sequence[LastingStorage], environment: Mapping[str, str]) -> LastingStorage:
    """Return the storage of the folder that the user named, with that folder.

    Args:
        folder: The folder's path in the pods; a path below the only storage; or a key of mlops.env, such as
            OUTPUT_DIR. None for the only storage itself.
        available: The storages.
        environment: The values of mlops.env.
    """
    hint = ", ".join(f"{storage.root} ({storage.words})" for storage in available)
    if not available:
        message = "the package uses no storage that outlives its pods"
        raise UsageError(message, hint="switch a storage option on: mlpack configure PACKAGE --storage pvc")
    if folder is None:
        if len(available) > 1:
            raise UsageError("the package uses several storages: choose one with --folder", hint=f"there are: {hint}")
        return available[0]
    path = environment.get(folder, folder) if "/" not in folder else folder
    if folder not in environment and not path.startswith("/"):
        if len(available) > 1:
            message = f"--folder: expected an absolute path or a key of mlops.env, found {folder!r}"
            raise UsageError(message, hint=f"there are: {hint}")
        path = f"{available[0].root}/{path}"
    path = _absolute(path)
    if ".." in path.split("/") or not path.isprintable():
        raise UsageError(f"--folder: expected a path without '..', found {folder!r}")
    covering = [storage for storage in available if PurePosixPath(path).is_relative_to(storage.root)]
    if not covering:
        raise UsageError(f"{path} is on no storage that outlives the pods", hint=f"there are: {hint}")
    return replace(max(covering, key=lambda storage: len(storage.root)), path=path)


def _absolute(path: str) -> str:
    return str(PurePosixPath("/") / path)


def _is_part(storage: LastingStorage, other: LastingStorage) -> bool:
    if storage is other or storage.volume["name"] != other.volume["name"]:
        return False
    return storage.root != other.root and PurePosixPath(storage.root).is_relative_to(other.root)

"""Copies files to and from the storage that a package's pods use, through a temporary pod that mounts it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, ToolError, reason
from packager.cluster import download, temporary_pod, upload
from packager.cluster import storedfiles as workspace
from packager.cluster.claims import create_workspace, missing_claims
from packager.cluster.shell import BrokenOffError, ContainerShell
from packager.kubernetes.manifest import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.base.progress import Progress, Tell
    from packager.cluster.storedfiles import Listing, StoragePlace, StoredEntry
    from packager.cluster.target import Target

MEMORY = "64Mi"
"""The memory limit of the temporary pod, which does not depend on the size of the files."""

_COMPONENT = "workspace"
_CONTAINER = "files"
_TRIES = 5
_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Session:
    """The storage and the options of a push, a pull or a listing.

    Attributes:
        target: The opened overlay whose pods use the storage.
        place: The folder on the storage.
        patience: The longest wait in seconds without receiving data; 0 for no limit.
        image: The image of the temporary pod; None for the workload's image.
        tell: Receives messages for the user.
    """

    target: Target
    place: StoragePlace
    patience: float
    image: str | None
    tell: Tell


@dataclass(frozen=True, slots=True)
class Pushed:
    """The result of a push.

    Attributes:
        place: The folder of the storage.
        source: The local folder.
        files: The paths that were pushed; in a dry run, those that would be pushed.
        size: The total size of these files in bytes.
        unchanged: The paths that already exist on the storage with the same content.
        dry_run: Whether nothing was pushed.
    """

    place: StoragePlace
    source: Path
    files: tuple[str, ...]
    size: int
    unchanged: tuple[str, ...]
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "storage": self.place.storage.words,
            "path": self.place.path,
            "folder": str(self.source),
            "files": list(self.files),
            "bytes": self.size,
            "unchanged": list(self.unchanged),
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class Pulled:
    """The result of a pull.

    Attributes:
        place: The folder of the storage.
        destination: The local folder.
        files: The paths that were pulled; in a dry run, those that would be pulled.
        size: The total size of these files in bytes.
        unchanged: The paths that already exist in the local folder with the same content.
        changed: The paths that changed while they were read, and were not pulled.
        skipped: The paths that are not pulled: links, devices, and names that are not allowed on this machine.
        unnamed: The number of further skipped paths.
        unread: Messages about files and folders that could not be read.
        dry_run: Whether nothing was pulled.
    """

    place: StoragePlace
    destination: Path
    files: tuple[str, ...]
    size: int
    unchanged: tuple[str, ...]
    changed: tuple[str, ...]
    skipped: tuple[str, ...]
    unnamed: int
    unread: tuple[str, ...]
    dry_run: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every file on the storage was read unchanged."""
        return not (self.unread or self.changed)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "storage": self.place.storage.words,
            "path": self.place.path,
            "folder": str(self.destination),
            "files": list(self.files),
            "bytes": self.size,
            "unchanged": list(self.unchanged),
            "changed": list(self.changed),
            "complete": self.is_complete,
            "skipped": list(self.skipped),
            "skippedUnnamed": self.unnamed,
            "unread": list(self.unread),
            "dryRun": self.dry_run,
        }


@dataclass(frozen=True, slots=True)
class Listed:
    """The content of a folder on a storage."""

    place: StoragePlace
    listing: Listing

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "storage": self.place.storage.words,
            "path": self.place.path,
            "entries": [_entry_json(entry) for entry in self.listing.entries],
            "skipped": list(self.listing.skipped),
            "skippedUnnamed": self.listing.unnamed,
            "unread": list(self.listing.unread),
        }


def _entry_json(entry: StoredEntry) -> dict[str, Any]:
    return {"path": entry.path, "type": entry.kind, "bytes": entry.size, "modified": entry.modified}


def session(target: Target, folder: str | None, *, patience: float, image: str | None, tell: Tell) -> Session:
    """Return the session for a push, a pull or a listing.

    Args:
        target: The opened overlay whose pods use the storage.
        folder: The folder that the user names; see `cluster.workspace.place`.
        patience: The longest wait in seconds without receiving data; 0 for no limit.
        image: The image of the temporary pod; None for the workload's image.
        tell: Receives messages for the user.

    Raises:
        UsageError: There is no such storage.
    """
    environment = {}
    for item in target.manifests.objects:
        if item["kind"] == "ConfigMap" and "OUTPUT_DIR" in (item.get("data") or {}):
            environment = {str(key): str(value) for key, value in item["data"].items()}
    pod_spec = target.manifests.kind.pod_template(target.manifests.workload)
    place = workspace.place(folder, workspace.storages(pod_spec), environment)
    return Session(target, place, patience, image, tell)


def push(session: Session, folder: Path, *, force: bool, dry_run: bool, progress: Progress) -> Pushed:
    """Copy a local folder's files to the storage.

    Args:
        session: The session.
        folder: The local folder.
        force: Whether files with other contents are replaced.
        dry_run: Whether to return the files without pushing them.
        progress: Shows the progress.

    Raises:
        UsageError: The folder cannot be pushed.
        ClusterError: The storage cannot be written, or the push would replace files without `force`.
        TimedOutError: No data was sent within the session's patience.
    """
    local = upload.local_folder(folder)
    place = session.place
    if not dry_run:
        _create_claim(session)
    pending: upload.Pending | None = None
    is_committing = False

    def attempt(shell: ContainerShell) -> None:
        nonlocal pending, is_committing
        if pending is None:
            pending = upload.compare(shell, place, local, force=force)
        elif is_committing:  # the connection ended here: some files may already have their final names
            again = upload.compare(shell, place, local, force=True)
            left = {part.file.path for part in again.parts}
            pending = upload.Pending(
                tuple(part for part in pending.parts if part.file.path in left), pending.empty, pending.unchanged
            )
        if (pending.parts or pending.empty) and not dry_run:
            with progress("pushing", pending.size, unit="bytes") as advance:
                upload.send(shell, place, pending, advance)
            upload.verify(shell, place, pending)
            is_committing = True
            upload.commit(shell, place, pending, force=force)

    _with_retries(session, attempt, writes=not dry_run)
    assert pending is not None
    unchanged = set(pending.unchanged)
    files = [file for file in local.files if file.path not in unchanged]
    paths, size = tuple(file.path for file in files), sum(file.size for file in files)
    return Pushed(place, folder, paths, size, pending.unchanged, dry_run=dry_run)


def pull(session: Session, folder: Path, *, force: bool, dry_run: bool, progress: Progress) -> Pulled:
    """Copy files from the storage to a local folder.

    Args:
        session: The session.
        folder: The local folder, which is created if it is missing.
        force: Whether local files with other contents are replaced.
        dry_run: Whether to return the files without pulling them.
        progress: Shows the progress.

    Raises:
        ClusterError: The storage cannot be read, or the pull would replace files without `force`.
        TimedOutError: No data arrived within the session's patience.
        VerificationError: The received data is not what was requested.
        ToolError: The local folder cannot be written.
    """
    place = session.place
    required: download.Required | None = None
    changed: tuple[str, ...] = ()

    def attempt(shell: ContainerShell) -> None:
        nonlocal required, changed
        if required is None:
            required = download.compare(shell, place, folder, force=force)
        if not dry_run:
            with progress("pulling", required.size, unit="bytes") as advance:
                changed = download.fetch(shell, place, required, folder, advance)

    try:
        _with_retries(session, attempt, writes=False)
    except OSError as error:
        hint = "what has arrived is kept: pull again to continue"
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None
    assert required is not None
    listing = required.listing
    links_and_devices = [entry.path for entry in listing.entries if entry.kind in ("link", "other")]
    files = [file.entry for file in required.files if file.entry.path not in set(changed)]
    return Pulled(
        place,
        folder,
        tuple(entry.path for entry in files),
        sum(entry.size for entry in files),
        required.unchanged,
        changed,
        (*links_and_devices, *listing.skipped),
        listing.unnamed,
        required.unread,
        dry_run=dry_run,
    )


def ls(session: Session) -> Listed:
    """Return the content of the session's folder. Raises ClusterError, TimedOutError and VerificationError."""
    listing: list[Listing] = []
    _with_retries(session, lambda shell: listing.append(workspace.listed(shell, session.place)), writes=False)
    return Listed(session.place, listing[-1])


def _create_claim(session: Session) -> None:
    """Create the claim of the package's workspace, if the session uses it and it does not exist."""
    claim = mapping(session.place.storage.volume.get("persistentVolumeClaim")).get("claimName")
    if claim and claim == session.target.package.workspace and claim in missing_claims([session.target]):
        create_workspace(session.target, session.tell)


def _helper(session: Session, *, writes: bool) -> temporary_pod.HelperPod:
    storage = session.place.storage.writable() if writes else session.place.storage.read_only()
    description = "the temporary pod"
    return temporary_pod.HelperPod(
        _COMPONENT, description, _CONTAINER, MEMORY, (storage.mount,), (storage.volume,), session.image
    )


@contextmanager
def _shell(session: Session, *, writes: bool) -> Iterator[ContainerShell]:
    kubectl, manifests = session.target.kubectl, session.target.manifests
    pod_spec = manifests.kind.pod_template(manifests.workload)
    with temporary_pod.running(kubectl, _helper(session, writes=writes), manifests.name, pod_spec, session.tell) as pod:
        yield ContainerShell(kubectl, pod, _CONTAINER, session.patience, session.tell)


def _with_retries(session: Session, attempt: Callable[[ContainerShell], object], *, writes: bool) -> None:
    """Call `attempt` with a shell in a temporary pod; after a broken connection, repeat it in another pod.

    Raises:
        ClusterError: The connection broke off in every attempt.
        TimedOutError: No data arrived within the session's patience.
    """
    kubectl = session.target.kubectl
    temporary_pod.sweep(kubectl, _COMPONENT)
    for number in range(1, _TRIES + 1):
        try:
            with _shell(session, writes=writes) as shell:
                attempt(shell)
        except BrokenOffError as error:
            broken = error.reason
        else:
            return
        if number < _TRIES:
            session.tell(f"the connection broke off: {broken}; continuing (attempt {number + 1} of {_TRIES})")
            kubectl.runner.sleep(_PAUSE)
    hint = "run it again: what has arrived is kept"
    raise ClusterError(f"the connection broke off {_TRIES} times: {broken}", hint=hint)

"""Copies files to and from the storage that a package's pods use, through a temporary pod that mounts it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.app import claims
from packager.base.errors import ClusterError, ToolError, reason
from packager.cluster import download, helper, upload, workspace
from packager.cluster.shell import BrokenOffError, ContainerShell
from packager.kubernetes.manifest import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.app.progress import Progress, Tell
    from packager.app.target import Target
    from packager.cluster.workspace import Listing, StoragePlace, StoredEntry

MEMORY = "64Mi"
"""What the temporary pod may use, whatever the size of the files."""

_COMPONENT = "workspace"
_CONTAINER = "files"
_TRIES = 5
_PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Session:
    """What a push, a pull or a listing works with.

    Attributes:
        target: Whose storage.
        place: The folder there.
        patience: Seconds without any data after which it is given up; 0 for never.
        image: The image of the temporary pod; None for the workload's own.
        tell: Takes what a person wants to hear meanwhile.
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
        files: The paths that were pushed; in a dry run, those that would be.
        size: Their bytes.
        unchanged: The paths that were there already, with the same content.
        dry_run: Whether nothing was pushed.
    """

    place: StoragePlace
    source: Path
    files: tuple[str, ...]
    size: int
    unchanged: tuple[str, ...]
    dry_run: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
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
        files: The paths that were pulled; in a dry run, those that would be.
        size: Their bytes.
        unchanged: The paths that were here already, with the same content.
        changed: The paths that changed while they were read, and were not pulled.
        skipped: What is not pulled: links, devices, and names that are not allowed here.
        unnamed: How many more of these there are.
        unread: Messages about what could not be read.
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
        """Whether all files have arrived that are there."""
        return not (self.unread or self.changed)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
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
    """What is in a folder of a storage."""

    place: StoragePlace
    listing: Listing

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
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
    """Return what to work with.

    Args:
        target: Whose storage.
        folder: The folder that the user means; see `cluster.workspace.place`.
        patience: Seconds without any data after which it is given up; 0 for never.
        image: The image of the temporary pod; None for the workload's own.
        tell: Takes what a person wants to hear meanwhile.

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


def push(given: Session, folder: Path, *, force: bool, dry_run: bool, progress: Progress) -> Pushed:
    """Copy a local folder's files to the storage.

    Args:
        given: With what.
        folder: The local folder.
        force: Whether files with other contents are replaced.
        dry_run: Whether only to say what would be pushed.
        progress: Shows how far it is.

    Raises:
        UsageError: The folder cannot be pushed.
        ClusterError: It cannot be written there, or would replace files.
        TimedOutError: Nothing was sent for too long.
    """
    local = upload.local_folder(folder)
    place = given.place
    if not dry_run:
        _create_claim(given)
    pending: upload.Pending | None = None
    is_committing = False

    def attempt(shell: ContainerShell) -> None:
        nonlocal pending, is_committing
        if pending is None:
            pending = upload.compare(shell, place, local, force=force)
        elif is_committing:  # the connection ended then: some may have their names already
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

    _with_retries(given, attempt, writes=not dry_run)
    assert pending is not None
    unchanged = set(pending.unchanged)
    files = [file for file in local.files if file.path not in unchanged]
    paths, size = tuple(file.path for file in files), sum(file.size for file in files)
    return Pushed(place, folder, paths, size, pending.unchanged, dry_run=dry_run)


def pull(given: Session, folder: Path, *, force: bool, dry_run: bool, progress: Progress) -> Pulled:
    """Copy files from the storage to a local folder.

    Args:
        given: With what.
        folder: The local folder, which is made when it is missing.
        force: Whether local files with other contents are replaced.
        dry_run: Whether only to say what would be pulled.
        progress: Shows how far it is.

    Raises:
        ClusterError: It cannot be read, or would replace files.
        TimedOutError: Nothing came for too long.
        VerificationError: What came is not what was asked for.
        ToolError: The local folder cannot be written.
    """
    place = given.place
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
        _with_retries(given, attempt, writes=False)
    except OSError as error:
        hint = "what has arrived is kept: pull again to continue"
        raise ToolError(f"{folder} cannot be written: {reason(error)}", hint=hint) from None
    assert required is not None
    listing = required.listing
    others = [entry.path for entry in listing.entries if entry.kind in ("link", "other")]
    files = [file.entry for file in required.files if file.entry.path not in set(changed)]
    return Pulled(
        place,
        folder,
        tuple(entry.path for entry in files),
        sum(entry.size for entry in files),
        required.unchanged,
        changed,
        (*others, *listing.skipped),
        listing.unnamed,
        required.unread,
        dry_run=dry_run,
    )


def ls(given: Session) -> Listed:
    """Return what is in the folder. Raises ClusterError, TimedOutError and VerificationError."""
    listing: list[Listing] = []
    _with_retries(given, lambda shell: listing.append(workspace.listed(shell, given.place)), writes=False)
    return Listed(given.place, listing[-1])


def _create_claim(given: Session) -> None:
    """Create the claim of the package's workspace, if it is this storage and does not exist."""
    claim = mapping(given.place.storage.volume.get("persistentVolumeClaim")).get("claimName")
    if claim and claim == given.target.package.workspace and claim in claims.missing([given.target]):
        claims.create_workspace(given.target, given.tell)


def _helper(given: Session, *, writes: bool) -> helper.HelperPod:
    storage = given.place.storage.writable() if writes else given.place.storage.read_only()
    words = "the temporary pod"
    return helper.HelperPod(_COMPONENT, words, _CONTAINER, MEMORY, (storage.mount,), (storage.volume,), given.image)


@contextmanager
def _shell(given: Session, *, writes: bool) -> Iterator[ContainerShell]:
    kubectl, manifests = given.target.kubectl, given.target.manifests
    pod_spec = manifests.kind.pod_template(manifests.workload)
    with helper.running(kubectl, _helper(given, writes=writes), manifests.name, pod_spec, given.tell) as pod:
        yield ContainerShell(kubectl, pod, _CONTAINER, given.patience, given.tell)


def _with_retries(given: Session, attempt: Callable[[ContainerShell], object], *, writes: bool) -> None:
    """Call `attempt` with a shell of a temporary pod, and again with that of another one after a broken connection.

    Raises:
        ClusterError: The connection broke off again and again.
        TimedOutError: Nothing came for too long.
    """
    kubectl = given.target.kubectl
    helper.sweep(kubectl, _COMPONENT)
    for number in range(1, _TRIES + 1):
        try:
            with _shell(given, writes=writes) as shell:
                attempt(shell)
        except BrokenOffError as error:
            broken = error.reason
        else:
            return
        if number < _TRIES:
            given.tell(f"the connection broke off: {broken}; continuing (attempt {number + 1} of {_TRIES})")
            kubectl.runner.sleep(_PAUSE)
    hint = "run it again: what has arrived is kept"
    raise ClusterError(f"the connection broke off {_TRIES} times: {broken}", hint=hint)

"""Copies a folder from a running container so that it can be continued, and compares each file by its digest.

The first copy is a tar, while another command in the container reads the digests. What is there already, what differs,
and what is large is left to `packager.cluster.download`, which reads single files from the first missing byte. A
container that lacks a program for this is copied from by tar alone.

Tests: cluster/test_resumable.py.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from packager.base.errors import ClusterError, MlpackError
from packager.cluster import download
from packager.cluster import storedfiles as workspace
from packager.cluster.copying import Copied, CopyInterruptedError, copy, pod_end
from packager.cluster.receive import Received
from packager.cluster.shell import BrokenOffError, ContainerShell
from packager.cluster.storedfiles import LastingStorage, StoragePlace
from packager.cluster.tarmessages import Remarks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from packager.base.process import Running
    from packager.cluster.copying import RemoteFolder
    from packager.cluster.storedfiles import Listing
    from packager.kubernetes.kubectl.client import Kubectl

LARGE = 256 << 20
"""The smallest size of files that are read one by one from the start, so that a broken connection costs little."""

_TRIES = 4
_PAUSE = 2.0


def copy_folder(
    kubectl: Kubectl, place: RemoteFolder, folder: Path, *, patience: float, tell: Callable[[str], object]
) -> Copied:
    """Copy a folder of a container into a local one, which is created if it is missing.

    Files that are there with the same content are not read again. After a broken connection, the copy is continued.

    Args:
        kubectl: The user's kubectl.
        place: The folder to copy.
        folder: The local folder. Files of the same name are replaced.
        patience: Seconds without data after which the copy is given up; 0 for never.
        tell: Called with a message when no data arrives, and when the connection broke off.

    Raises:
        ClusterError: The container has no such folder or no tar, or the connection broke off again and again.
        TimedOutError: No data arrived for `patience` seconds.
        VerificationError: The received data is not what the container has listed.
        OSError: `folder` cannot be written.
    """
    work = _Copy(kubectl, place, folder, patience, tell)
    try:
        listing = workspace.listed(work.shell, work.where)
    except (ClusterError, BrokenOffError) as error:
        # tar reports a missing folder or permission by itself.
        return replace(copy(kubectl, place, folder, patience=patience, tell=tell), unchecked=str(error))
    for number in range(1, _TRIES + 1):
        try:
            return work.run(listing) if number == 1 else work.resumed()
        except BrokenOffError as error:
            broken = str(error)
        except CopyInterruptedError as error:
            broken = error.why
        if pod_end(kubectl, place.pod):
            break
        if number < _TRIES:
            tell(f"the copy was interrupted: {broken}; continuing (attempt {number + 1} of {_TRIES})")
            kubectl.runner.sleep(_PAUSE)
    raise ClusterError(f"the copy is incomplete: {broken}", hint="run it again; the files copied so far are kept")


@dataclass(slots=True)
class _Copy:
    kubectl: Kubectl
    place: RemoteFolder
    folder: Path
    patience: float
    tell: Callable[[str], object]

    @property
    def shell(self) -> ContainerShell:
        return ContainerShell(self.kubectl, self.place.pod, self.place.container, self.patience, self.tell)

    @property
    def where(self) -> StoragePlace:
        path = self.place.path
        return StoragePlace(LastingStorage(path, {}, {"name": path, "folder": {}}), path)

    def run(self, listing: Listing) -> Copied:
        """Copy everything that the folder was listed with."""
        sizes = {path: entry.size for path, entry in listing.files.items()}
        is_there = any(os.path.lexists(self.folder / path) for path in (workspace.PARTS, *sizes))
        if is_there or any(size >= LARGE for size in sizes.values()):
            return self.resumed()
        received: dict[str, bytes] = {}
        with _Digests(self.shell, self.where, sizes) as digests:
            copied = copy(
                self.kubectl, self.place, self.folder, patience=self.patience, tell=self.tell, digests=received
            )
            seen = digests.result()
        if seen is None:
            return replace(copied, unchecked=digests.error)
        if any(seen.get(path, digest.hex()) != digest.hex() for path, digest in received.items()):
            return _both(copied, self.resumed())
        return copied

    def resumed(self) -> Copied:
        """Copy the files that are missing here, or whose digest differs."""
        required = download.compare(self.shell, self.where, self.folder, force=True)
        changed = download.fetch(self.shell, self.where, required, self.folder, lambda _size: None)
        latest = download.fetch_latest(self.shell, self.where, changed, self.folder)
        files = [file.entry for file in required.files if file.entry.path not in changed or file.entry.path in latest]
        listing = required.listing
        odd = tuple(entry.path for entry in listing.entries if entry.kind in ("link", "other"))
        received = Received(
            len(files), sum(entry.size for entry in files), (*odd, *listing.skipped), unnamed=listing.unnamed
        )
        gone = tuple(path for path in changed if path not in latest)
        return Copied(received, Remarks(required.unread, changed=latest, gone=gone), unchanged=len(required.unchanged))


@dataclass(slots=True)
class _Digests:
    """The digests of files in a container, which are read in another thread until the block ends.

    Attributes:
        error: The reason why there are none; None if there are.
    """

    shell: ContainerShell
    where: StoragePlace
    sizes: Mapping[str, int]
    error: str | None = None
    _found: dict[str, str] = field(default_factory=dict)
    _thread: threading.Thread = field(init=False)
    _running: Running | None = None
    _is_over: bool = False

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over = True
        if self._running is not None:
            self._running.stop()

    def _note(self, running: Running) -> None:
        self._running = running
        if self._is_over:
            running.stop()

    def _read(self) -> None:
        try:
            self._found = workspace.digests(replace(self.shell, started=self._note), self.where, self.sizes)
        except (MlpackError, BrokenOffError) as error:
            self.error = str(error)

    def result(self) -> dict[str, str] | None:
        """Return the digests by path; None if they cannot be read."""
        self._thread.join()
        return None if self.error else self._found


def _both(first: Copied, second: Copied) -> Copied:
    """Return the result of a copy whose differing files were copied again."""
    remarks = replace(
        second.remarks, left_out=first.remarks.left_out, others=first.remarks.others, more=first.remarks.more
    )
    received = replace(first.received, orphans=())
    return Copied(received, remarks, first.busy)

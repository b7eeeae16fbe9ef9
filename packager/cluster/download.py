"""Downloads files from a folder of a storage into a local folder: each appears completely or not at all.

A large file arrives in the folder PARTS of the local folder, under its digest, and is continued after a broken
connection. The listing, which is read first, limits the data that is accepted from the pod.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, cast

from packager.base.errors import ClusterError, VerificationError
from packager.base.limits import Limits
from packager.base.problems import Problem
from packager.cluster.receive import ReceivingFolder, TooMuchError, receive, write_all
from packager.cluster.shell import ScriptError
from packager.cluster.storedfiles import ENTER, PARTS, digests, listed, why_unread
from packager.package.path_checks import ContentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from packager.cluster.shell import ContainerShell
    from packager.cluster.storedfiles import Listing, StoragePlace, StoredEntry

LARGE = 4 << 20
"""The smallest size of files that are read one by one, from the first missing byte; smaller ones are read together."""

_CHUNK = 1 << 18
_SHOWN = 20

_MAX_REASONS = 1_000
"""The largest number of unreadable files whose reasons are asked for."""

# Not every busybox has a tar that reads a list. Its xargs passes at most 32 KiB of arguments to one program.
_PACK = ENTER + "head -c \"$3\" | tr '\\n' '\\000' | xargs -0 tar -c -f - --\n"
_LIST_BYTES = 24 << 10
_TAIL = ENTER + 'tail -c "+$4" -- "./$3"\n'

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PART_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Remote:
    """A file to pull, and its expected digest."""

    entry: StoredEntry
    digest: str


@dataclass(frozen=True, slots=True)
class Required:
    """The work of a pull.

    Attributes:
        files: The files to read.
        unchanged: The paths of files that exist locally with the same content.
        listing: The contents of the remote folder.
        unread: The paths that cannot be read, each with the reason.
    """

    files: tuple[Remote, ...]
    unchanged: tuple[str, ...]
    listing: Listing
    unread: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        return sum(file.entry.size for file in self.files)


def compare(shell: ContainerShell, where: StoragePlace, folder: Path, *, force: bool) -> Required:
    """Return the files that a pull has to read.

    Args:
        shell: The shell of a pod with the storage.
        where: The remote folder.
        folder: The local folder.
        force: Whether to replace local files with other contents.

    Raises:
        ClusterError: The remote folder cannot be read; or local files differ, each of which is a problem of the error.
    """
    listing = listed(shell, where)
    files = listing.files
    seen = digests(shell, where, {path: entry.size for path, entry in files.items()})
    missing: list[Remote] = []
    unchanged: list[str] = []
    different: list[Problem] = []
    unread = [path for path in files if path not in seen]
    for path, entry in files.items():
        local = folder / path
        if path not in seen:
            continue
        if not os.path.lexists(local):
            missing.append(Remote(entry, seen[path]))
        elif _local_digest(local, entry.size) == seen[path]:
            unchanged.append(path)
        else:
            missing.append(Remote(entry, seen[path]))
            is_file = local.is_file() and not local.is_symlink()
            message = "it exists with another content" if is_file else "it exists and is not a file"
            if not (force and is_file):
                different.append(Problem(str(local), 0, 0, message))
    if different:
        count = f"{len(different)} file{'s' if len(different) > 1 else ''}"
        message = f"{count} in {folder} would be replaced; nothing was pulled"
        raise ClusterError(message, hint="--force replaces files", problems=different[:_SHOWN])
    reasons = (*listing.unread, *why_unread(shell, where, unread[:_MAX_REASONS]))
    return Required(tuple(missing), tuple(unchanged), listing, reasons)


def fetch(
    shell: ContainerShell, where: StoragePlace, required: Required, folder: Path, advance: Callable[[int], object]
) -> tuple[str, ...]:
    """Read the required files into a local folder, which is created if missing; complete files are not read again.

    Returns:
        The paths of files that changed during the pull and did not arrive.

    Raises:
        ClusterError: The remote folder cannot be read.
        BrokenOffError: The connection broke off; call the function again to continue.
        VerificationError: The received data was not requested, or a link in the local folder is in the way.
        OSError: The local folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pending = _missing(required.files, folder)
    advance(required.size - sum(file.entry.size for file in pending))
    large = [file for file in pending if _is_apart(file)]
    small = [file for file in pending if not _is_apart(file)]
    try:
        with ExitStack() as stack:
            place = _destination(stack, folder)
            for entry in required.listing.entries:
                if entry.kind == "folder":
                    _make_folder(place, entry.path)
            changed = _fetch_each(shell, where, large, place, advance)
            # tar sends the second of two hard links without content: such a file is read separately.
            late = [
                file for batch in _file_batches(small) for file in _fetch_batch(shell, where, batch, folder, advance)
            ]
            changed += _fetch_each(shell, where, late, place, advance)
        with suppress(OSError):
            (folder / PARTS).rmdir()
    except ScriptError as error:
        raise ClusterError(f"files in {where.path} cannot be read: {error}") from None
    return tuple(file.entry.path for file in changed)


def fetch_latest(shell: ContainerShell, where: StoragePlace, paths: Sequence[str], folder: Path) -> tuple[str, ...]:
    """Read files that change again and again as they are, and return those that arrived.

    Raises:
        BrokenOffError: The connection broke off.
        VerificationError: The received data is not a tar, or a link in the local folder is in the way.
        OSError: The local folder cannot be written.
    """
    arrived: dict[str, bytes] = {}
    for batch in _batches([path for path in paths if "\\" not in path]):
        lines = "".join(f"./{path}\n" for path in batch).encode()
        tar = _Stream(shell.stream(_PACK, where.storage.path, where.path, str(len(lines)), given=[lines]))
        with suppress(ScriptError):  # a file was deleted, or has changed once more
            try:
                receive(cast("IO[bytes]", tar), folder, digests=dict.fromkeys(batch), record=arrived)
            finally:
                tar.drain()
    return tuple(path for path in paths if path in arrived)


def _is_apart(file: Remote) -> bool:
    """Whether a file is read separately: it is large, or GNU tar would read a part of its path as an escape."""
    return file.entry.size >= LARGE or "\\" in file.entry.path


def _file_batches(files: Sequence[Remote]) -> Iterator[list[Remote]]:
    by_path = {file.entry.path: file for file in files}
    for batch in _batches(list(by_path)):
        yield [by_path[path] for path in batch]


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        length = len(f"./{path}\n".encode())
        if batch and size + length > _LIST_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += length
    if batch:
        yield batch


def _fetch_batch(
    shell: ContainerShell, where: StoragePlace, files: list[Remote], folder: Path, advance: Callable[[int], object]
) -> list[Remote]:
    """Read files together, and return those that have not arrived; a file that has grown too much stops no other."""
    late: list[Remote] = []
    while files:
        try:
            return late + _fetch_together(shell, where, files, folder, advance)
        except TooMuchError:
            left = _missing(files, folder)  # in the order of tar, so that the first one has grown
            late, files = late + left[:1], left[1:]
    return late


def _missing(files: Sequence[Remote], folder: Path) -> list[Remote]:
    return [file for file in files if _local_digest(folder / file.entry.path, file.entry.size) != file.digest]


def _fetch_together(
    shell: ContainerShell, where: StoragePlace, files: Sequence[Remote], folder: Path, advance: Callable[[int], object]
) -> list[Remote]:
    """Read files together, and return those that have not arrived with their digests; they replace no local file."""
    lines = "".join(f"./{file.entry.path}\n" for file in files).encode()
    given = shell.stream(_PACK, where.storage.path, where.path, str(len(lines)), given=[lines])
    # The limits have to leave room for folders and extended headers.
    limits = Limits(size=sum(file.entry.size for file in files) + 4096 * len(files), files=len(files))
    digests = {file.entry.path: file.digest for file in files}
    tar = _Stream(given)
    try:
        receive(cast("IO[bytes]", tar), folder, advance, limits, digests)
    except TooMuchError:
        raise
    except VerificationError:
        tar.drain()  # raises if a broken connection is the cause
        raise
    failure = None
    try:
        tar.drain()
    except ScriptError as error:  # tar also fails when a file has changed
        failure = error
    changed = _missing(files, folder)
    if failure and not changed:
        raise failure
    return changed


def _fetch_each(
    shell: ContainerShell,
    where: StoragePlace,
    files: Sequence[Remote],
    place: ReceivingFolder,
    advance: Callable[[int], object],
) -> list[Remote]:
    """Read files one by one, and return those that have not arrived with their digests."""
    changed = []
    for file in files:
        try:
            _fetch_one(shell, where, file, place, advance)
        except (_ChangedError, ScriptError):  # a ScriptError: the file was deleted, or is no longer readable
            changed.append(file)
            with suppress(OSError):
                os.unlink(file.digest, dir_fd=place.work)
    return changed


def _fetch_one(
    shell: ContainerShell, where: StoragePlace, file: Remote, place: ReceivingFolder, advance: Callable[[int], object]
) -> None:
    path, size = file.entry.path, file.entry.size
    part = os.open(file.digest, _PART_FLAGS, 0o600, dir_fd=place.work)
    try:
        offset = os.fstat(part).st_size
        if offset > size:
            os.ftruncate(part, 0)
            offset = 0
        advance(offset)
        os.lseek(part, 0, os.SEEK_END)
        if offset < size:
            for chunk in shell.stream(_TAIL, where.storage.path, where.path, path, str(offset + 1)):
                offset += len(chunk)
                if offset > size:
                    os.ftruncate(part, 0)
                    raise _ChangedError
                write_all(part, chunk)
                advance(len(chunk))
        if offset < size or _digest(part) != file.digest:
            os.ftruncate(part, 0)
            raise _ChangedError
        os.fchmod(part, 0o755 if file.entry.is_executable else 0o644)
        with suppress(OSError, OverflowError):
            os.utime(part, (file.entry.modified, file.entry.modified))
        above, _, name = path.rpartition("/")
        try:
            with place.folder(above) as target:
                place.refuse_link(target, name, place.shown / path)
                os.rename(file.digest, name, src_dir_fd=place.work, dst_dir_fd=target)
        except ContentError as error:
            raise VerificationError(str(error)) from None
    finally:
        os.close(part)


def _make_folder(place: ReceivingFolder, path: str) -> None:
    try:
        with place.folder(path):
            pass
    except (ContentError, NotADirectoryError):
        raise VerificationError(f"{place.shown / path} exists and is not a folder") from None


def _destination(stack: ExitStack, folder: Path) -> ReceivingFolder:
    root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    stack.callback(os.close, root)
    with suppress(FileExistsError):
        os.mkdir(PARTS, 0o700, dir_fd=root)
    work = os.open(PARTS, _FOLDER_FLAGS, dir_fd=root)
    stack.callback(os.close, work)
    return ReceivingFolder(root, work, folder)


class _ChangedError(Exception):
    """A file has not arrived with its digest."""


def _local_digest(path: Path, size: int) -> str | None:
    """Return the SHA-256 of a local file of this size; None if no such file can be opened."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _digest(file) if path.is_file() and os.fstat(file).st_size == size else None
    finally:
        os.close(file)


def _digest(file: int) -> str:
    with os.fdopen(file, "rb", closefd=False) as stream:
        stream.seek(0)
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Stream:
    """A readable file that consists of the chunks of a script; it ends where the script fails."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._failure: ScriptError | None = None

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        if not self._buffer:
            try:
                self._buffer = next(self._chunks, b"")
            except ScriptError as error:
                self._failure = error
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def drain(self) -> None:
        """Read up to 1 MiB that is left, and raise the error of the script if it has failed."""
        left = 1 << 20
        while left > 0 and (data := self.read(_CHUNK)):
            left -= len(data)
        if self._failure:
            raise self._failure

"""Unpacks a tar stream from a pod into a folder, safely.

No file is written outside of the folder, even if others change it meanwhile: each part of a path is opened relative to
the one above it, and no link is followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import VerificationError
from packager.base.limits import Limits
from packager.cluster.tarstream import LimitError, TarStream
from packager.package.contents import ContentError, normalized, shown
from packager.package.tarheader import DamageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.cluster.tarstream import Arrival

_MAX_FILES = 1_000_000

# What stays free on the disk, unless half of what is free is less.
_RESERVE = 1 << 30

_CHUNK = 1 << 20

# More names would not be read.
_MAX_NAMES = 1_000

_FILES = b"0\x007"
_HARD_LINK = b"1"
_FOLDER = b"5"

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# The file system cannot hold such a name, or has something else of that name.
_BAD_NAME_ERRNOS = frozenset(
    (errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY)
)

# A time that every file system can hold: until the year 2106.
_LATEST = 1 << 32


@dataclass(frozen=True, slots=True)
class Received:
    """The result of unpacking a tar stream.

    Attributes:
        files: How many files arrived.
        size: Their bytes.
        skipped: The names of what was left out, fit for a terminal: links, devices, sparse files, and what has a name
            that must not be in the folder, or cannot be. The first thousand.
        unnamed: How many more were left out.
        orphans: The hard links to files that did not arrive, and why; the first thousand.
    """

    files: int
    size: int
    skipped: tuple[str, ...]
    unnamed: int = 0
    orphans: tuple[str, ...] = ()


class TooMuchError(VerificationError):
    """More arrives than the limits allow."""


class _SkippedError(Exception):
    """A member that is left out."""


class _OrphanError(Exception):
    """A hard link to a file that did not arrive."""


def receive(
    stream: IO[bytes],
    folder: Path,
    advance: Callable[[int], object] = lambda _size: None,
    limits: Limits | None = None,
    digests: Mapping[str, str] | None = None,
) -> Received:
    """Unpack a tar, as it comes, into a `folder` that may hold things already; a file of the same name is replaced.

    A file appears when it is complete, and stays when what comes after it is damaged. A hard link becomes a copy of its
    file, which comes before it. Memory stays within a few MiB, and 64 bytes for each file.

    Args:
        stream: The tar.
        folder: Where to.
        advance: Called with the number of bytes as they are written.
        limits: How many files and bytes may arrive; None: a million files and folders, and as many bytes as the disk
            has room for, less 1 GiB or half of what is free.
        digests: The paths that may arrive, with the SHA-256 that each file has to have: a file with another one is
            skipped. None for all paths, and any content.

    Raises:
        TooMuchError: More arrives than the limits allow.
        VerificationError: The tar is damaged or breaks off, or a link in `folder` is in the way.
        OSError: `folder` cannot be written.
    """
    tar = TarStream(stream, limits or _disk_limits(folder))
    files = size = unnamed = 0
    skipped: list[str] = []
    orphans: list[str] = []
    with ExitStack() as stack:
        root = _open_until_exit(stack, folder, os.O_DIRECTORY)
        # In the folder itself, for a rename does not lead from one file system to another.
        work = _open_until_exit(stack, stack.enter_context(workfolder.beside(folder / "results")), _FOLDER_FLAGS)
        stack.enter_context(_errors_explained())
        unpacker = _Unpacker(tar, ReceivingFolder(root, work, folder), advance, digests)
        for member in tar.members():
            try:
                is_file = unpacker.write(member)
            except _OrphanError:
                if len(orphans) < _MAX_NAMES:
                    names = [shown(path.removeprefix("./")) for path in (member.path, member.target)]
                    orphans.append(f"{names[0]}: it is a hard link to {names[1]}, which did not arrive")
            except _SkippedError:
                if len(skipped) < _MAX_NAMES:
                    skipped.append(shown(member.path.removeprefix("./")))
                else:
                    unnamed += 1
            else:
                files, size = files + is_file, size + member.size
    return Received(files, size, tuple(skipped), unnamed, tuple(orphans))


def _open_until_exit(stack: ExitStack, folder: Path, flags: int) -> int:
    descriptor = os.open(folder, flags | os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


@contextmanager
def _errors_explained() -> Iterator[None]:
    try:
        yield
    except LimitError as error:
        raise TooMuchError(str(error)) from None
    except DamageError as error:
        raise VerificationError(f"the tar stream is truncated or damaged: {error}") from None
    except ContentError as error:
        raise VerificationError(str(error)) from None


def _disk_limits(folder: Path) -> Limits:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    return Limits(size=free - min(_RESERVE, free // 2), files=_MAX_FILES)


@dataclass(frozen=True, slots=True)
class ReceivingFolder:
    """The folder that receives files: its descriptor, that of a work folder in it, and its name for messages."""

    root: int
    work: int
    shown: Path

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Open the folder `path`, which is made where it is not."""
        step, current = self.shown, os.dup(self.root)
        try:
            for part in path.split("/") if path else ():
                step /= part
                is_new = False
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=current)
                    is_new = True
                self.refuse_link(current, part, step)
                child = os.open(part, _FOLDER_FLAGS, dir_fd=current)
                os.close(current)
                current = child
                if is_new:
                    os.fchmod(current, 0o755)  # whatever the umask
            yield current
        finally:
            os.close(current)

    def refuse_link(self, folder: int, name: str, step: Path) -> None:
        """Raise ContentError when `name` is a link."""
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise ContentError(f"{step} is a link")


@dataclass(frozen=True, slots=True)
class _Unpacker:
    """Writes the members of a tar into a folder.

    Attributes:
        tar: The tar.
        place: The folder.
        advance: As for `receive`.
        digests: As for `receive`.
        arrived: The inodes of the files that have arrived.
    """

    tar: TarStream
    place: ReceivingFolder
    advance: Callable[[int], object]
    digests: Mapping[str, str] | None
    arrived: set[int] = field(default_factory=set)

    def write(self, member: Arrival) -> bool:
        """Write a member, and return whether it is a file. Raises _SkippedError and _OrphanError."""
        try:
            path = normalized(member.path)
        except ContentError:
            raise _SkippedError from None
        is_folder = member.kind in _FOLDER or member.path.endswith("/")
        if not member.is_known or member.kind not in _FILES + _HARD_LINK + _FOLDER or not (path or is_folder):
            raise _SkippedError
        if self.digests is not None and (path not in self.digests or member.kind in _HARD_LINK):
            raise _SkippedError
        try:
            if is_folder:
                with self.place.folder(path):
                    return False
            self._write_file(path, member)
        except OSError as error:
            if error.errno in _BAD_NAME_ERRNOS:
                raise _SkippedError from None
            raise
        return True

    def _write_file(self, path: str, member: Arrival) -> None:
        above, _, name = path.rpartition("/")
        with self.place.folder(above) as folder, ExitStack() as stack:
            self.place.refuse_link(folder, name, self.place.shown / path)
            chunks = self._linked(stack, member.target) if member.kind in _HARD_LINK else self.tar.chunks()
            digest, inode = self._write(member, chunks)
            if self.digests is not None and digest != self.digests[path]:
                raise _SkippedError
            os.rename(workfolder.FILE, name, src_dir_fd=self.place.work, dst_dir_fd=folder)
            self.arrived.add(inode)

    def _linked(self, stack: ExitStack, target: str) -> Iterator[bytes]:
        """Return the content of a file that has arrived; it counts as if it arrived again. Raises _OrphanError."""
        try:
            above, _, name = normalized(target).rpartition("/")
            with self.place.folder(above) as folder:
                file = os.open(name, _FILE_FLAGS, dir_fd=folder)
        except (ContentError, OSError):
            raise _OrphanError from None
        stack.callback(os.close, file)
        status = os.fstat(file)
        if status.st_ino not in self.arrived:
            raise _OrphanError
        self.tar.count(status.st_size)
        return iter(lambda: os.read(file, _CHUNK), b"")

    def _write(self, member: Arrival, chunks: Iterator[bytes]) -> tuple[str, int]:
        """Write a file into the work folder, and return its SHA-256 and its inode."""
        content = hashlib.sha256()
        with suppress(FileNotFoundError):  # of a member that could not take its name
            os.unlink(workfolder.FILE, dir_fd=self.place.work)
        new = os.open(workfolder.FILE, _NEW_FLAGS, 0o600, dir_fd=self.place.work)
        with os.fdopen(new, "wb", buffering=0) as file:
            for chunk in chunks:
                _write_all(file.fileno(), chunk)
                content.update(chunk)
                self.advance(len(chunk))
            os.fchmod(file.fileno(), 0o755 if member.mode & 0o100 else 0o644)
            if 0 <= member.mtime < _LATEST:
                os.utime(file.fileno(), (member.mtime, member.mtime))
            return content.hexdigest(), os.fstat(file.fileno()).st_ino


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]

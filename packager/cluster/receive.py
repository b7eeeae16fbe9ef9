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
from packager.package.path_checks import ContentError, normalized, shown
from packager.package.tarheader import DamageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from packager.cluster.tarstream import Arrival

_MAX_FILES = 1_000_000

# The bytes that stay free on the disk, unless half of the free bytes are fewer.
_RESERVE = 1 << 30

_CHUNK = 1 << 20

# Users would not read more names.
_MAX_NAMES = 1_000

_FILES = b"0\x007"
_HARD_LINK = b"1"
_FOLDER = b"5"

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

# The file system does not support the name, or has another kind of entry with this name.
_BAD_NAME_ERRNOS = frozenset(
    (errno.EINVAL, errno.ENAMETOOLONG, errno.EILSEQ, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY)
)

# Times before the year 2106 are supported by every file system.
_LATEST = 1 << 32


@dataclass(frozen=True, slots=True)
class Received:
    """The result of unpacking a tar stream.

    Attributes:
        files: The number of received files.
        size: The number of their bytes.
        skipped: The first thousand names of skipped members, fit for a terminal: links, devices, sparse files, and
            names that are not allowed or not supported in the folder.
        unnamed: The number of further skipped members.
        orphans: The first thousand hard links to files that did not arrive, each with the reason.
    """

    files: int
    size: int
    skipped: tuple[str, ...]
    unnamed: int = 0
    orphans: tuple[str, ...] = ()


class TooMuchError(VerificationError):
    """The archive exceeds the limits."""


class _SkippedError(Exception):
    """A member is skipped."""


class _OrphanError(Exception):
    """A hard link refers to a file that did not arrive."""


def receive(  # noqa: PLR0913 - a mapping each for digests that are known and those that are not
    stream: IO[bytes],
    folder: Path,
    advance: Callable[[int], object] = lambda _size: None,
    limits: Limits | None = None,
    digests: Mapping[str, str | None] | None = None,
    *,
    record: dict[str, bytes] | None = None,
) -> Received:
    """Unpack a tar stream into an existing folder; files of the same name are replaced.

    A file appears when it is complete, and stays if a later part of the stream is damaged. A hard link becomes a copy
    of an earlier file. Memory stays within a few MiB, and 64 bytes for each file.

    Args:
        stream: The tar stream.
        folder: The folder to unpack into.
        advance: Called with the number of bytes as they are written.
        limits: The largest numbers of files and bytes; None for a million files and folders, and the free bytes of the
            disk less 1 GiB, or half of them.
        digests: The accepted paths with their SHA-256, or None for any content; other files are skipped. None for all
            paths and any content.
        record: Receives the SHA-256 of each file that arrives; None for no digests.

    Raises:
        TooMuchError: The archive exceeds the limits.
        VerificationError: The tar is damaged or breaks off, or a link in `folder` is in the way.
        OSError: `folder` cannot be written.
    """
    tar = TarStream(stream, limits or _disk_limits(folder))
    files = size = unnamed = 0
    skipped: list[str] = []
    orphans: list[str] = []
    with ExitStack() as stack:
        root = _open_until_exit(stack, folder, os.O_DIRECTORY)
        # The work folder is in the folder itself, since a rename cannot move a file to another file system.
        work = _open_until_exit(stack, stack.enter_context(workfolder.beside(folder / "results")), _FOLDER_FLAGS)
        stack.enter_context(_errors_explained())
        unpacker = _Unpacker(tar, ReceivingFolder(root, work, folder), advance, digests, record)
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
    """A folder that receives files: its descriptor, that of a work folder in it, and its name for messages."""

    root: int
    work: int
    shown: Path

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Open a folder below this one, creating missing parts, and yield its descriptor."""
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
                    os.fchmod(current, 0o755)  # independent of the umask
            yield current
        finally:
            os.close(current)

    def refuse_link(self, folder: int, name: str, step: Path) -> None:
        """Raise ContentError if `name` is a link in a folder; `step` is its path for the message."""
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise ContentError(f"{step} is a link")


@dataclass(frozen=True, slots=True)
class _Unpacker:
    """Writes the members of a tar into a folder.

    Attributes:
        tar: The tar stream.
        place: The folder to unpack into.
        advance: The argument of `receive`.
        digests: The argument of `receive`.
        record: The argument of `receive`.
        arrived: The inodes of the received files.
    """

    tar: TarStream
    place: ReceivingFolder
    advance: Callable[[int], object]
    digests: Mapping[str, str | None] | None
    record: dict[str, bytes] | None
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
            if self.digests is not None and self.digests[path] not in (None, digest.hex()):
                raise _SkippedError
            os.rename(workfolder.FILE, name, src_dir_fd=self.place.work, dst_dir_fd=folder)
            self.arrived.add(inode)
            if self.record is not None:
                self.record[path] = digest

    def _linked(self, stack: ExitStack, target: str) -> Iterator[bytes]:
        """Return the content of a received file, which counts towards the limits again. Raises _OrphanError."""
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

    def _write(self, member: Arrival, chunks: Iterator[bytes]) -> tuple[bytes, int]:
        """Write a file into the work folder; return its SHA-256, which is empty if not asked for, and its inode."""
        content = None if self.digests is None and self.record is None else hashlib.sha256()
        with suppress(FileNotFoundError):  # left by a member that could not be renamed
            os.unlink(workfolder.FILE, dir_fd=self.place.work)
        new = os.open(workfolder.FILE, _NEW_FLAGS, 0o600, dir_fd=self.place.work)
        with os.fdopen(new, "wb", buffering=0) as file:
            for chunk in chunks:
                write_all(file.fileno(), chunk)
                if content is not None:
                    content.update(chunk)
                self.advance(len(chunk))
            os.fchmod(file.fileno(), 0o755 if member.mode & 0o100 else 0o644)
            if 0 <= member.mtime < _LATEST:
                os.utime(file.fileno(), (member.mtime, member.mtime))
            return content.digest() if content else b"", os.fstat(file.fileno()).st_ino


def write_all(file: int, data: bytes) -> None:
    """Write all of `data` to an open file."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]

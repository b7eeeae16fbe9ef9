"""Reads files of a container into a local folder by one tar: what is missing there, or has another digest.

What a pod sends is not trusted: only files that were asked for are written, below the local folder, and all bytes are
counted. A file appears when it has arrived completely.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, cast

from packager.base import workfolder
from packager.base.errors import ClusterError, VerificationError
from packager.base.problems import Problem
from packager.cluster.files import CHUNK, ENTER, MOST_PROBLEMS, as_lines
from packager.cluster.shell import ScriptError
from packager.package.path_checks import ContentError, normalized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from packager.cluster.files import Listing, RemoteFolder, StoredEntry

_HEADER_BYTES = 64 << 10
"""The largest extended header: a path is at most 4 KiB long, and nothing else in it is needed."""

_SOME_FAILED = 123
"""The exit code of xargs if tar has failed, for example at a file that it may not read."""

_RESERVE = 1 << 30
"""The bytes that stay free on the disk, unless half of the free bytes are fewer."""

# Not every busybox has a tar that reads a list; xargs may start several, whose archives follow each other.
# GNU tar reads a backslash in a name as an escape, unless it is told not to.
_PACK = (
    ENTER
    + """
command -v tar >/dev/null || { echo 'tar: not found' >&2; return 127; }
tar --no-unquote -c -f /dev/null /dev/null 2>/dev/null && plain=--no-unquote || plain=
head -c "$3" | tr '\\n' '\\000' | xargs -0 tar $plain -c -f - --
"""
)


@dataclass
class Pull:
    """The files of a remote folder that a local one lacks; those that have arrived are taken out."""

    listing: Listing
    files: dict[str, StoredEntry]  # those of the listing, by path
    pending: list[str]  # the paths of the files to read
    unchanged: tuple[str, ...]  # the paths of local files with the same content
    unread: tuple[str, ...]  # messages about entries that cannot be read
    gone: tuple[str, ...] = ()  # the paths of files that were deleted before they were read
    arrived: list[str] = field(default_factory=list)  # the paths of files that were written
    changed: tuple[str, ...] = ()  # those of them that have changed since they were listed

    def size_of(self, paths: Iterable[str]) -> int:
        """Return the listed size of files in bytes."""
        return sum(self.files[path].size for path in paths)


def compare_for_pull(remote: RemoteFolder, folder: Path, *, force: bool) -> Pull:
    """Return the files that a pull has to read."""
    listing = remote.entries()
    files = listing.files
    local = {path: _local_digest(folder / path, entry.size) for path, entry in files.items()}
    seen, _ = remote.digests({path: files[path].size for path, digest in local.items() if digest})
    unchanged = {path for path, digest in seen.items() if digest == local[path]}
    pending = [path for path in files if path not in unchanged]
    links = {path for path in folder.rglob("*") if path.is_symlink()} if folder.is_dir() else set()
    written = (*pending, *(entry.path for entry in listing.entries if entry.kind == "folder"))
    if behind := {step for path in written for step in (folder / path, *(folder / path).parents)} & links:
        problems = [
            Problem(str(link), 0, 0, "it is a link, and nothing is written through it") for link in sorted(behind)
        ]
        raise ClusterError(f"{folder} cannot be written; nothing was pulled", problems=problems[:MOST_PROBLEMS])
    different: list[Problem] = []
    for path in pending:
        place = folder / path
        is_file = place.is_file() and not place.is_symlink()
        if os.path.lexists(place) and not (force and is_file):
            message = "it exists with another content" if is_file else "it exists and is not a file"
            different.append(Problem(str(place), 0, 0, message))
    if different:
        count = f"{len(different)} file{'s' if len(different) > 1 else ''}"
        message = f"{count} in {folder} would be replaced; nothing was pulled"
        raise ClusterError(message, hint="--force replaces files", problems=different[:MOST_PROBLEMS])
    return Pull(listing, files, pending, tuple(sorted(unchanged)), listing.unread)


def pull(remote: RemoteFolder, work: Pull, folder: Path, advance: Callable[[int], object] = lambda _size: None) -> None:
    """Read the pending files into a local folder, which is created if missing, and find those that have changed.

    Raises:
        BrokenOffError: The connection broke off; call the function again to continue.
        OSError: The local folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for entry in work.listing.entries:
        if entry.kind == "folder":
            (folder / entry.path).mkdir(parents=True, exist_ok=True)
    if not work.pending:
        return
    lines, size = as_lines(work.pending)
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    chunks = remote.shell.stream(_PACK, remote.root, remote.path, str(size), given=[lines])
    stream = _Stream(chunks, free - min(_RESERVE, free // 2))
    try:
        try:
            unpack(cast("IO[bytes]", stream), work, folder, advance)
        finally:
            stream.drain()  # raises if a broken connection is the cause of an error
    except ScriptError as error:  # a file was deleted, or can no longer be read
        if not work.arrived and error.code != _SOME_FAILED:
            raise remote.read_error(error) from None
    after = remote.entries().files
    work.changed = tuple(path for path in work.arrived if path in after and after[path] != work.files[path])
    _, reasons = remote.digests({path: work.files[path].size for path in work.pending})
    missing = ": No such file or directory"
    work.unread = (*work.unread, *(reason for reason in reasons if not reason.endswith(missing)))
    work.gone = tuple(reason.removesuffix(missing) for reason in reasons if reason.endswith(missing))


def unpack(stream: IO[bytes], work: Pull, folder: Path, advance: Callable[[int], object] = lambda _size: None) -> None:
    """Write the pending files of a tar into an existing folder, and skip everything else.

    Raises:
        OSError: The folder cannot be written.
    """
    awaited = set(work.pending)
    with workfolder.beside(folder / "file") as parts:
        try:
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member, ignore_zeros=True, bufsize=CHUNK) as tar:
                for member in tar:
                    _take(tar, member, work, awaited, folder, parts / "file", advance)
        except (tarfile.TarError, ValueError) as error:
            raise VerificationError(f"what the pod sends is not a valid tar: {error}") from None
        finally:
            work.pending = [path for path in work.pending if path in awaited]


class _Member(tarfile.TarInfo):
    """A member of a tar whose headers are small, and that has no map of holes."""

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        is_extension = self.type not in tarfile.REGULAR_TYPES and self.type in (
            *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
            *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        )
        if self.type == tarfile.GNUTYPE_SPARSE or (is_extension and self.size > _HEADER_BYTES):
            raise tarfile.ReadError("a header is too large, or of a file with holes")
        return super()._proc_member(tar)  # type: ignore[misc]

    def _proc_gnusparse_10(self, *_arguments: object) -> None:
        raise tarfile.ReadError("a file with holes")


def _take(  # noqa: PLR0913, PLR0917 - the member, and where it goes
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    work: Pull,
    awaited: set[str],
    folder: Path,
    part: Path,
    advance: Callable[[int], object],
) -> None:
    """Write a member if it was asked for; a hard link becomes a copy of the file that it refers to."""
    with suppress(ContentError):
        path = normalized(member.name)
        if path not in awaited:
            return
        if member.islnk():
            source = normalized(member.linkname)
            if source in awaited or source not in work.files:
                return
            shutil.copyfile(folder / source, part)
        elif member.isreg() and (content := tar.extractfile(member)):
            with part.open("wb") as file:
                while chunk := content.read(CHUNK):
                    file.write(chunk)
                    advance(len(chunk))
        else:
            return
        entry = work.files[path]
        part.chmod(0o755 if entry.is_executable else 0o644)
        with suppress(OSError, OverflowError):
            os.utime(part, (entry.modified, entry.modified))
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        part.replace(folder / path)
        work.arrived.append(path)
        awaited.discard(path)


class _Stream:
    """A readable file that consists of the chunks of a script; it ends where the script fails."""

    def __init__(self, chunks: Iterator[bytes], limit: int) -> None:
        self._chunks = chunks
        self._left = limit
        self._buffer = b""
        self._failure: ScriptError | None = None

    def read(self, size: int) -> bytes:
        while not self._buffer and self._failure is None:
            try:
                chunk = next(self._chunks, None)
            except ScriptError as error:
                self._failure = error
                break
            if chunk is None:
                break
            self._buffer = chunk
            self._left -= len(chunk)
            if self._left < 0:
                raise VerificationError("the pod sends more than the disk can hold")
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def drain(self) -> None:
        """Read what is left, and raise the error of the script if it has failed."""
        while self.read(CHUNK):
            pass
        if self._failure:
            raise self._failure


def _local_digest(path: Path, size: int) -> str | None:
    """Return the SHA-256 of a local file of this size; None if there is no such file."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size != size:
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None

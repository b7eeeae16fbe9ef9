"""Reads files of a container into a local folder by one tar: what is missing there, or has another digest.

What a pod sends is not trusted: only files that were asked for are written, below the local folder, and all bytes are
counted. A file appears when it has arrived completely.
"""

import hashlib
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from packager.base import workfolder
from packager.base.errors import ClusterError, VerificationError
from packager.base.problems import Problem
from packager.cluster.file_lists import CHUNK, ENTER, MOST_PROBLEMS, Listing, RemoteFolder, StoredEntry, as_lines
from packager.cluster.shell import ScriptError
from packager.package.path_checks import ContentError, normalized

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
    there = [] if force else [folder / path for path in pending if os.path.lexists(folder / path)]
    reasons = {True: "it exists with another content", False: "it exists and is not a file"}
    problems = [Problem(str(path), 0, 0, reasons[path.is_file()]) for path in there]
    if problems:
        count = f"{len(problems)} file{'s' if len(problems) > 1 else ''}"
        message = f"{count} in {folder} would be replaced; nothing was pulled"
        raise ClusterError(message, hint="--force replaces files", problems=problems[:MOST_PROBLEMS])
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
    arguments, room = (remote.root, remote.path, str(size)), free - min(_RESERVE, free // 2)
    try:
        with remote.shell.run(_PACK, *arguments, given=[lines], room=room) as output:
            unpack(cast("IO[bytes]", output), work, folder, advance)
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
                    with suppress(ContentError):
                        path, source = normalized(member.name), normalized(member.linkname) if member.islnk() else ""
                        if path not in awaited:
                            continue
                        if source in work.files and source not in awaited:  # a hard link becomes a copy
                            shutil.copyfile(folder / source, parts / "file")
                        elif not _has_written(tar, member, parts / "file", advance):
                            continue
                        _put(parts / "file", work.files[path], folder)
                        work.arrived.append(path)
                        awaited.discard(path)
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


def _has_written(tar: tarfile.TarFile, member: tarfile.TarInfo, part: Path, advance: Callable[[int], object]) -> bool:
    """Write the content of a file to `part`; false if the member is no file."""
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        return False
    with part.open("wb") as file:
        while chunk := content.read(CHUNK):
            file.write(chunk)
            advance(len(chunk))
    return True


def _put(part: Path, entry: StoredEntry, folder: Path) -> None:
    """Give a complete file its mode and time, and its name."""
    part.chmod(0o755 if entry.is_executable else 0o644)
    with suppress(OSError, OverflowError):
        os.utime(part, (entry.modified, entry.modified))
    (folder / entry.path).parent.mkdir(parents=True, exist_ok=True)
    part.replace(folder / entry.path)


def _local_digest(path: Path, size: int) -> str | None:
    """Return the SHA-256 of a local file of this size; None if there is no such file."""
    try:
        if not path.is_file() or path.stat().st_size != size:
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None

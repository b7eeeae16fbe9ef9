"""Uploads files to a folder of a storage: they appear when all are complete, and received bytes are not sent again.

Files arrive in the folder PARTS of the remote folder, under their digests. When all are complete and have these
digests, they are renamed.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, MlpackError, UsageError, reason
from packager.base.problems import Problem
from packager.cluster.shell import ScriptError
from packager.cluster.storedfiles import ENTER, MAX_FILES, PARTS, StoragePlace, conflicts, digests, listed
from packager.package import tarheader
from packager.package.path_checks import ContentError, normalized, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from packager.cluster.shell import ContainerShell
    from packager.cluster.storedfiles import Listing

LARGE = 4 << 20
"""The smallest size of files that are sent one by one, from the first missing byte; smaller ones are sent together."""

_CHUNK = 1 << 18
_SHOWN = 20

# Parts older than a day belong to a push that is not continued, and are deleted.
_PREPARE = (
    """
mkdir -p "$2" || return 1
"""
    + ENTER
    + f"""
if [ -L {PARTS} ]; then echo '{PARTS} is a link' >&2; return 1; fi
mkdir -p {PARTS} && cd {PARTS} && find . -type f -mmin +1440 -exec rm -f -- {{}} + &&
    find . -type f -exec stat -c '%s %n' {{}} +
"""
)
# busybox's head does not report why it cannot write, so cat writes.
_APPEND = ENTER + f'head -c "$4" | cat >>"{PARTS}/$3"\n'
# busybox's tar reads on after the end of an archive, so head limits its input.
_UNPACK = ENTER + f'head -c "$3" | tar -x -o -m -f - -C {PARTS}\n'
_REMOVE = ENTER + f'rm -f -- "{PARTS}/$3"\n'

# The list has three lines for each file: the name of its part, its mode, and its path.
_COMMIT = (
    ENTER
    + f"""
head -c "$4" | {{ while IFS= read -r part && IFS= read -r mode && IFS= read -r path; do
    if [ "$part" = - ]; then mkdir -p "./$path" || exit 1; continue; fi
    case $path in */*) [ -d "./${{path%/*}}" ] || mkdir -p "./${{path%/*}}" || exit 1 ;; esac
    if [ "$3" != force ] && {{ [ -e "./$path" ] || [ -L "./$path" ]; }}; then echo "$path"; continue; fi
    [ "$mode" = - ] || chmod "$mode" "{PARTS}/$part" || exit 1
    mv -f "{PARTS}/$part" "./$path" || exit 1
done; }} || return 1
rmdir {PARTS} 2>/dev/null || :  # another push may have something there
"""
)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to push.

    Attributes:
        path: The path below the local folder.
        source: The path of the file on this machine.
        size: The size in bytes.
        is_executable: Whether the file's owner may execute it.
    """

    path: str
    source: Path
    size: int
    is_executable: bool

    def chunks(self, offset: int = 0, advance: Callable[[int], object] = lambda _size: None) -> Iterator[bytes]:
        """Yield the bytes of the file from `offset` on.

        Raises:
            UsageError: The file cannot be read, or has become shorter.
        """
        left = self.size - offset
        try:
            with os.fdopen(os.open(self.source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb", buffering=0) as file:
                file.seek(offset)
                while left and (chunk := file.read(min(left, _CHUNK))):
                    left -= len(chunk)
                    advance(len(chunk))
                    yield chunk
        except OSError as error:
            raise UsageError(f"{self.source} cannot be read: {reason(error)}") from None
        if left:
            raise UsageError(f"{self.source} became shorter while it was read", hint="push it again")

    @property
    def digest(self) -> str:
        """The SHA-256 of the file, in hexadecimal digits. Raises UsageError."""
        content = hashlib.sha256()
        for chunk in self.chunks():
            content.update(chunk)
        return content.hexdigest()


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """The contents of a local folder: its files, and the paths of its empty folders."""

    files: tuple[LocalFile, ...]
    empty: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A file that is being sent, and its name in PARTS, which begins with its digest."""

    file: LocalFile
    name: str

    @property
    def digest(self) -> str:
        """The expected digest."""
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Pending:
    """The work of a push.

    Attributes:
        parts: The files to send.
        empty: The empty folders to create.
        unchanged: The paths of files that exist on the storage with the same content.
    """

    parts: tuple[Part, ...]
    empty: tuple[str, ...]
    unchanged: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of bytes to send."""
        return sum(part.file.size for part in self.parts)


def local_folder(folder: Path) -> LocalFolder:
    """Return the contents of a local folder.

    Raises:
        UsageError: The folder does not exist or cannot be read; or it contains links, devices or names that cannot be
            sent, each of which is a problem of the error.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    files: list[LocalFile] = []
    empty: list[str] = []
    problems: list[Problem] = []
    try:
        for path, status in _walk(folder, ""):
            source = folder / path
            if complaint := _complaint(path, status):
                problems.append(Problem(str(source), 0, 0, complaint))
            elif stat.S_ISDIR(status.st_mode):
                empty.append(path)
            else:
                files.append(LocalFile(path, source, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
            if len(files) > MAX_FILES:
                raise UsageError(f"{folder} contains more than {MAX_FILES:,} files", hint="push an archive of them")
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {reason(error)}") from None
    if problems:
        raise UsageError(f"{folder} cannot be pushed; nothing was sent", problems=problems[:_SHOWN])
    return LocalFolder(tuple(files), tuple(empty))


def _walk(folder: Path, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files and the empty folders below a folder, sorted by name, with their status."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith(".mlpack-"))
    for name in names:
        below = f"{path}/{name}" if path else name
        status = (folder / name).lstat()
        if not stat.S_ISDIR(status.st_mode):
            yield below, status
            continue
        is_empty = True
        for inner in _walk(folder / name, below):
            is_empty = False
            yield inner
        if is_empty:
            yield below, status


def _complaint(path: str, status: os.stat_result) -> str | None:
    try:
        normalized(path)
    except ContentError as error:
        return str(error)
    if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    kind = "a link" if stat.S_ISLNK(status.st_mode) else "neither a file nor a folder"
    return f"it is {kind}, which is not pushed"


def compare(shell: ContainerShell, where: StoragePlace, local: LocalFolder, *, force: bool) -> Pending:
    """Return the files that a push has to send.

    Args:
        shell: The shell of a pod with the storage.
        where: The remote folder.
        local: The contents of the local folder.
        force: Whether to replace remote files with other contents.

    Raises:
        ClusterError: Remote files differ, or other entries are in their places; each is a problem of the error.
    """
    listing = listed(shell, where, must_exist=False)
    files = listing.files
    sizes = {path: entry.size for path, entry in files.items()}
    same_size = {file.path: file.size for file in local.files if sizes.get(file.path) == file.size}
    remote = digests(shell, where, same_size)
    parts: list[Part] = []
    unchanged: list[str] = []
    different: list[str] = []
    counts: dict[str, int] = {}
    for file in local.files:
        digest = file.digest
        if remote.get(file.path) == digest:
            unchanged.append(file.path)
            continue
        if file.path in files:
            different.append(file.path)
        counts[digest] = counts.get(digest, -1) + 1
        parts.append(Part(file, f"{digest}.{counts[digest]}"))
    folders = {entry.path for entry in listing.entries if entry.kind == "folder"}
    empty = tuple(path for path in local.empty if path not in folders)
    pending = Pending(tuple(parts), empty, tuple(unchanged))
    _refuse(where, listing, pending, () if force else different)
    return pending


def _refuse(where: StoragePlace, listing: Listing, pending: Pending, different: Sequence[str]) -> None:
    entries = {entry.path: entry for entry in listing.entries}
    blocked = conflicts([part.file.path for part in pending.parts], pending.empty, entries)
    if blocked:
        problems = [Problem(f"{where.path}/{path}", 0, 0, message) for path, message in blocked.items()]
        raise ClusterError(f"files cannot be written to {where.path}; nothing was pushed", problems=problems[:_SHOWN])
    if different:
        problems = [Problem(f"{where.path}/{path}", 0, 0, "it exists with another content") for path in different]
        count = f"{len(different)} file{'s' if len(different) > 1 else ''}"
        message = f"{count} in {where.path} would be replaced; nothing was pushed"
        raise ClusterError(message, hint="--force replaces them", problems=problems[:_SHOWN])


def send(shell: ContainerShell, where: StoragePlace, pending: Pending, advance: Callable[[int], object]) -> int:
    """Send all parts to PARTS, and return the number of bytes that had arrived before and are not sent again.

    Args:
        shell: The shell of a pod with the storage.
        where: The remote folder.
        pending: The work of the push.
        advance: Called with the numbers of bytes that had arrived before or were sent.

    Raises:
        ClusterError: The parts cannot be written.
        BrokenOffError: The connection broke off; call the function again to continue.
        UsageError: A file changed while it was read.
    """
    before = 0
    try:
        arrived = _arrived(shell.ask(_PREPARE, where.storage.path, where.path))
        small = []
        for part in pending.parts:
            offset = arrived.get(part.name)
            if part.file.size < LARGE and offset != part.file.size:
                small.append(part)
                continue
            if offset is not None and offset > part.file.size:
                shell.ask(_REMOVE, where.storage.path, where.path, part.name)
                offset = None
            before += offset or 0
            advance(offset or 0)
            if offset != part.file.size:
                _append(shell, where, part, offset or 0, advance)
        if small:
            size = str(_archive_size(small))
            shell.ask(_UNPACK, where.storage.path, where.path, size, given=_archive(small, advance))
    except ScriptError as error:
        raise _write_error(where, error) from None
    return before


def _append(
    shell: ContainerShell, where: StoragePlace, part: Part, offset: int, advance: Callable[[int], object]
) -> None:
    left = str(part.file.size - offset)
    given = part.file.chunks(offset, advance)
    shell.ask(_APPEND, where.storage.path, where.path, part.name, left, given=given)


def verify(shell: ContainerShell, where: StoragePlace, pending: Pending) -> None:
    """Compare the digests of the received parts, and delete damaged ones.

    Raises:
        ClusterError: A part is damaged.
        BrokenOffError: The connection broke off.
    """
    below = StoragePlace(where.storage, f"{where.path}/{PARTS}")
    seen = digests(shell, below, {part.name: part.file.size for part in pending.parts})
    damaged = [part for part in pending.parts if seen.get(part.name) != part.digest]
    for part in damaged:
        shell.ask(_REMOVE, where.storage.path, where.path, part.name)
    if damaged:
        message = f"{shown(damaged[0].file.path)} did not arrive as it was when the push began"
        raise ClusterError(message, hint="push again when no program is writing to it")


def commit(shell: ContainerShell, where: StoragePlace, pending: Pending, *, force: bool) -> None:
    """Rename all parts to their paths, and create the empty folders.

    Raises:
        ClusterError: The folder cannot be written; or files have appeared during the push, which are kept unchanged.
        BrokenOffError: The connection broke off.
    """
    lines = [f"{part.name}\n{_mode(part.file)}\n{part.file.path}\n" for part in pending.parts]
    lines += [f"-\n-\n{path}\n" for path in pending.empty]
    given = "".join(lines).encode()
    arguments = (where.storage.path, where.path, "force" if force else "keep", str(len(given)))
    try:
        answer = shell.ask(_COMMIT, *arguments, given=[given])
    except ScriptError as error:
        raise _write_error(where, error) from None
    if appeared := answer.decode(errors="replace").splitlines():
        message = f"{shown(appeared[0])} has appeared in {where.path} during the push, and was not replaced"
        raise ClusterError(message, hint="--force replaces it")


def _mode(file: LocalFile) -> str:
    return "-" if file.size < LARGE else "755" if file.is_executable else "644"


def _arrived(answer: bytes) -> dict[str, int]:
    sizes = {}
    for line in answer.decode(errors="replace").splitlines():
        size, _, name = line.partition(" ")
        if size.isdigit() and len(size) < 18:
            sizes[name.removeprefix("./")] = int(size)
    return sizes


def _archive_size(parts: Sequence[Part]) -> int:
    """Return the size of the archive of small files: each has a header of one block, and fills its last block."""
    blocks = sum(1 + -(-part.file.size // tarheader.BLOCK) for part in parts) + 2
    return blocks * tarheader.BLOCK


def _archive(parts: Sequence[Part], advance: Callable[[int], object]) -> Iterator[bytes]:
    """Yield a tar archive of small files, with several files in a chunk."""
    buffer = bytearray()
    for part in parts:
        mode = 0o755 if part.file.is_executable else 0o644
        buffer += tarheader.of_file(part.name, part.file.size, mode, 0)
        for chunk in part.file.chunks(0, advance):
            buffer += chunk
        buffer += bytes(-part.file.size % tarheader.BLOCK)
        if len(buffer) > _CHUNK:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer) + bytes(2 * tarheader.BLOCK)


def _write_error(where: StoragePlace, error: ScriptError) -> MlpackError:
    if error.is_full:
        message = f"{where.storage.words} is full: {error}"
        return ClusterError(message, hint="what has arrived is kept: free some space and push again")
    hint = "the user in the patch must be able to write there" if error.is_denied else None
    return ClusterError(f"{where.path} cannot be written: {error}", hint=hint)

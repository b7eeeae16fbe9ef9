"""Sends local files to a folder of a container by one tar: they appear when all are complete.

Files arrive in the folder PARTS of the remote folder, under their digests. When all are complete and have these
digests, they are renamed.
"""

import hashlib
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packager.base.errors import ClusterError, UsageError, reason
from packager.base.problems import Problem
from packager.cluster.file_lists import CHUNK, ENTER, MAX_FILES, MOST_PROBLEMS, PARTS, RemoteFolder, StoredEntry
from packager.cluster.shell import ScriptError
from packager.package.path_checks import ContentError, normalized, shown

# Parts older than a day belong to a push that is not continued.
_PREPARE = (
    '\nmkdir -p "$2" || return 1\n'
    + ENTER
    + f"""
if [ -L {PARTS} ]; then echo '{PARTS} is a link' >&2; return 1; fi
mkdir -p {PARTS} && cd {PARTS} && find . -type f -mmin +1440 -exec rm -f -- {{}} + &&
    find . -type f -exec stat -c '%s %n' {{}} +
"""
)
# busybox's tar reads on after the end of an archive, so head limits its input.
_UNPACK = ENTER + f'head -c "$3" | tar -x -o -m -f - -C {PARTS}\n'
_REMOVE = ENTER + f'rm -f -- "{PARTS}/$3"\n'
# The list has two lines for each file: the name of its part, and its path; for a folder, `-` and its path.
_COMMIT = (
    ENTER
    + f"""
head -c "$4" | {{ while IFS= read -r part && IFS= read -r path; do
    if [ "$part" = - ]; then mkdir -p "./$path" || exit 1; continue; fi
    case $path in */*) [ -d "./${{path%/*}}" ] || mkdir -p "./${{path%/*}}" || exit 1 ;; esac
    if [ "$3" != force ] && {{ [ -e "./$path" ] || [ -L "./$path" ]; }}; then echo "$path"; continue; fi
    mv -f "{PARTS}/$part" "./$path" || exit 1
done; }} || return 1
rmdir {PARTS} 2>/dev/null || :  # another push may have something there
"""
)


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A local file to push."""

    path: str  # below the local folder
    source: Path
    size: int
    is_executable: bool

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes of the file. Raises UsageError if it cannot be read, or has become shorter."""
        left = self.size
        try:
            with self.source.open("rb") as file:
                while left and (chunk := file.read(min(left, CHUNK))):
                    left -= len(chunk)
                    yield chunk
        except OSError as error:
            raise UsageError(f"{self.source} cannot be read: {reason(error)}") from None
        if left:
            raise UsageError(f"{self.source} became shorter while it was read", hint="push it again")


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """The contents of a local folder."""

    files: tuple[LocalFile, ...]
    empty: tuple[str, ...]  # the paths of its empty folders


def local_folder(folder: Path) -> LocalFolder:
    """Return the contents of a local folder."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    files: list[LocalFile] = []
    empty: list[str] = []
    problems: list[Problem] = []
    try:
        for source in sorted(folder.rglob("*")):
            path, status = source.relative_to(folder).as_posix(), source.lstat()
            if any(step.startswith(".mlpack-") for step in path.split("/")):
                continue
            if complaint := _complaint(path, status.st_mode):
                problems.append(Problem(str(source), 0, 0, complaint))
            elif stat.S_ISREG(status.st_mode):
                files.append(LocalFile(path, source, status.st_size, bool(status.st_mode & stat.S_IXUSR)))
            elif not any(source.iterdir()):
                empty.append(path)
            if len(files) > MAX_FILES:
                raise UsageError(f"{folder} contains more than {MAX_FILES:,} files", hint="push an archive of them")
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be read: {reason(error)}") from None
    if problems:
        raise UsageError(f"{folder} cannot be pushed; nothing was sent", problems=problems[:MOST_PROBLEMS])
    return LocalFolder(tuple(files), tuple(empty))


def _complaint(path: str, mode: int) -> str | None:
    try:
        normalized(path)
    except ContentError as error:
        return str(error)
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return f"it is {'a link' if stat.S_ISLNK(mode) else 'neither a file nor a folder'}, which is not pushed"


@dataclass(frozen=True, slots=True)
class Push:
    """The files that a remote folder lacks."""

    parts: dict[str, LocalFile]  # by their names in PARTS, which begin with their digests
    empty: tuple[str, ...]  # the empty folders to create
    unchanged: tuple[str, ...]  # the paths of remote files with the same content

    @property
    def size(self) -> int:
        """The number of bytes to send."""
        return sum(file.size for file in self.parts.values())


def compare_for_push(remote: RemoteFolder, local: LocalFolder, *, force: bool) -> Push:
    """Return the files that a push has to send."""
    listing = remote.entries(must_exist=False)
    files = listing.files
    seen, _ = remote.digests(
        {file.path: file.size for file in local.files if file.path in files and files[file.path].size == file.size}
    )
    parts: dict[str, LocalFile] = {}
    unchanged: list[str] = []
    for number, file in enumerate(local.files):
        sha256 = hashlib.sha256()
        for chunk in file.chunks():
            sha256.update(chunk)
        if seen.get(file.path) == sha256.hexdigest():
            unchanged.append(file.path)
        else:
            parts[f"{sha256.hexdigest()}.{number}"] = file
    entries = {entry.path: entry for entry in listing.entries}
    empty = tuple(path for path in local.empty if path not in entries or entries[path].kind != "folder")
    paths = [file.path for file in parts.values()]
    reasons = dict([*_conflicts("file", paths, entries), *_conflicts("folder", empty, entries)])
    message, hint = f"files cannot be written to {remote.path}; nothing was pushed", None
    if not reasons and not force:
        reasons = {path: "it exists with another content" for path in paths if path in files}
        count = f"{len(reasons)} file{'s' if len(reasons) > 1 else ''}"
        message, hint = f"{count} in {remote.path} would be replaced; nothing was pushed", "--force replaces them"
    if reasons:
        problems = [Problem(f"{remote.path}/{path}", 0, 0, why) for path, why in reasons.items()]
        raise ClusterError(message, hint=hint, problems=problems[:MOST_PROBLEMS])
    return Push(parts, empty, tuple(unchanged))


_WORDS = {"file": "a file", "folder": "a folder", "link": "a link", "other": "neither a file nor a folder"}


def _conflicts(kind: str, paths: Iterable[str], entries: Mapping[str, StoredEntry]) -> Iterator[tuple[str, str]]:
    """Yield each path that cannot become a file or a folder beside `entries`, with the reason."""
    for path in paths:
        above = [step for step in map(str, PurePosixPath(path).parents) if step in entries]
        if blocking := next((entries[step] for step in above if entries[step].kind != "folder"), None):
            yield path, f"{blocking.path} is {_WORDS[blocking.kind]}"
        elif path in entries and entries[path].kind != kind:
            yield path, f"it exists and is {_WORDS[entries[path].kind]}"


def send(remote: RemoteFolder, work: Push, advance: Callable[[int], object] = lambda _size: None) -> None:
    """Send all parts that have not arrived, and compare their digests.

    Raises:
        BrokenOffError: The connection broke off; call the function again to continue.
    """
    shell, where = remote.shell, (remote.root, remote.path)
    try:
        # The sizes and names of the parts that have arrived.
        arrived = set(shell.ask(_PREPARE, *where).decode(errors="replace").splitlines())
        missing = {name: file for name, file in work.parts.items() if f"{file.size} ./{name}" not in arrived}
        advance(work.size - sum(file.size for file in missing.values()))
        if missing:
            size = sum(1 + -(-file.size // tarfile.BLOCKSIZE) for file in missing.values()) + 2
            given = _archive(missing, advance)
            shell.ask(_UNPACK, *where, str(size * tarfile.BLOCKSIZE), given=given)
    except ScriptError as error:
        raise _write_error(remote, error) from None
    parts = RemoteFolder(shell, remote.root, f"{remote.path}/{PARTS}", remote.words)
    seen, _ = parts.digests({name: file.size for name, file in work.parts.items()})
    damaged = [name for name in work.parts if seen.get(name) != name.partition(".")[0]]
    for name in damaged:
        shell.ask(_REMOVE, *where, name)
    if damaged:
        message = f"{shown(work.parts[damaged[0]].path)} did not arrive as it was when the push began"
        raise ClusterError(message, hint="push again when no program is writing to it")


def _archive(parts: Mapping[str, LocalFile], advance: Callable[[int], object]) -> Iterator[bytes]:
    """Yield a tar of files, with several small ones in a chunk."""
    buffer = bytearray()
    for name, file in parts.items():
        header = tarfile.TarInfo(name)
        header.size, header.mode = file.size, 0o755 if file.is_executable else 0o644
        buffer += header.tobuf(tarfile.GNU_FORMAT)
        for chunk in file.chunks():
            buffer += chunk
            advance(len(chunk))
            if len(buffer) > CHUNK:
                yield bytes(buffer)
                buffer.clear()
        buffer += bytes(-file.size % tarfile.BLOCKSIZE)
    yield bytes(buffer) + bytes(2 * tarfile.BLOCKSIZE)


def commit(remote: RemoteFolder, work: Push, *, force: bool) -> None:
    """Rename all parts to their paths, and create the empty folders.

    Raises:
        BrokenOffError: The connection broke off.
    """
    lines = [f"{name}\n{file.path}\n" for name, file in work.parts.items()]
    given = "".join([*lines, *(f"-\n{path}\n" for path in work.empty)]).encode()
    arguments = (remote.root, remote.path, "force" if force else "keep", str(len(given)))
    try:
        answer = remote.shell.ask(_COMMIT, *arguments, given=[given])
    except ScriptError as error:
        raise _write_error(remote, error) from None
    if appeared := answer.decode(errors="replace").splitlines():
        message = f"{shown(appeared[0])} has appeared in {remote.path} during the push, and was not replaced"
        raise ClusterError(message, hint="--force replaces it")


def _write_error(remote: RemoteFolder, error: ScriptError) -> ClusterError:
    if error.is_full:
        message = f"{remote.words} is full: {error}"
        return ClusterError(message, hint="what has arrived is kept: free some space and push again")
    hint = "the user in the patch must be able to write there" if error.is_denied else None
    return ClusterError(f"{remote.path} cannot be written: {error}", hint=hint)

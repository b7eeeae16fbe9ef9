"""The storage that a workload's pods use and that outlives them: which there is, and what is on it."""

from __future__ import annotations

import stat
from copy import deepcopy
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, UsageError, VerificationError
from packager.cluster.results import outlives_pods, storage_of
from packager.cluster.shell import ScriptError
from packager.package.contents import ContentError, normalized, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.cluster.shell import ContainerShell
    from packager.kubernetes.objects import Object

PARTS = ".mlpack-parts"
"""The folder, in the one that files are pushed to or pulled to, with what has not arrived completely."""

MAX_FILES = 200_000
"""Of which one push or pull may consist."""

_MAX_SKIPPED = 1_000

# How fast a storage is read at least, to know when a command that prints nothing meanwhile hangs.
_BYTES_PER_SECOND = 10 << 20

_NO_FOLDER, _LEADS_OUT = 3, 4

# What a script that works in a folder begins with: $1 is where the storage is mounted, $2 the folder.
ENTER = f"""
cd "$1" && root=$(pwd -P) || return 1
[ -d "$2" ] || return {_NO_FOLDER}
cd "$2" || return 1
case "$(pwd -P)/" in "${{root%/}}"/*) ;; *) return {_LEADS_OUT} ;; esac
"""

# A line feed in a name would be taken for the end of it: such names are counted only.
_LIST = (
    ENTER
    + f"""
nl='
'
command -v find >/dev/null || {{ echo 'find: not found' >&2; return 127; }}
find . -path ./{PARTS} -prune -o -path ./lost+found -prune -o -name "*$nl*" -prune -o \\
    ! -name . -exec stat -c '%f %s %Y %n' {{}} + 2>&1
find . -name "*$nl*" -prune -exec echo '?' \\; 2>/dev/null
return 0
"""
)

# head reads no more than it may, so the list's length says where it ends.
_DIGESTS = (
    ENTER
    + """
command -v sha256sum >/dev/null || { echo 'sha256sum: not found' >&2; return 127; }
head -c "$3" | tr '\\n' '\\000' | xargs -0 sha256sum -- || [ $? = 123 ]  # 123: of some files only
"""
)

# Of each file, why it cannot be read, behind the last colon of what head says.
_WHY_UNREAD = (
    ENTER
    + """
head -c "$3" | while IFS= read -r path; do
    why=$(head -c 1 -- "$path" 2>&1 >/dev/null) && why=
    printf '%s\\n' "${why##*: }"
done
"""
)


@dataclass(frozen=True, slots=True)
class LastingStorage:
    """A volume that outlives the pods, and where they mount it.

    Attributes:
        path: Where.
        mount: How.
        volume: The volume.
    """

    path: str
    mount: Object
    volume: Object

    @property
    def words(self) -> str:
        """What it is: `the claim results`."""
        return storage_of(self.volume)

    def writable(self) -> LastingStorage:
        """Return the same, for a pod that writes to it."""
        mount, volume = deepcopy(self.mount), deepcopy(self.volume)
        for part in (mount, *(source for source in volume.values() if isinstance(source, dict))):
            part.pop("readOnly", None)
        return LastingStorage(self.path, mount, volume)

    def read_only(self) -> LastingStorage:
        """Return the same, for a pod that only reads."""
        return LastingStorage(self.path, {**self.mount, "readOnly": True}, self.volume)


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """A folder of a storage.

    Attributes:
        storage: The storage.
        path: The folder, as the pods see it.
    """

    storage: LastingStorage
    path: str


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """What is in a folder of a storage.

    Attributes:
        path: Below the folder.
        kind: `file`, `folder`, `link` or `other`.
        size: Bytes, of a file.
        modified: Seconds since 1970.
        is_executable: Whether its owner may execute it.
    """

    path: str
    kind: str
    size: int
    modified: int
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a folder.

    Attributes:
        entries: Sorted by their paths.
        skipped: Names that no file may have here, fit for a terminal; the first thousand.
        unnamed: How many more there are.
        unread: Messages about what could not be read, fit for a terminal.
    """

    entries: tuple[StoredEntry, ...] = ()
    skipped: tuple[str, ...] = ()
    unnamed: int = 0
    unread: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, StoredEntry]:
        """The files, by their paths."""
        return {entry.path: entry for entry in self.entries if entry.kind == "file"}


def storages(pod_spec: Object) -> tuple[LastingStorage, ...]:
    """Return what outlives the pods, in the order in which their main container mounts it.

    Of mounts of one volume within each other, it is the outer one.
    """
    volumes = {volume["name"]: volume for volume in pod_spec.get("volumes") or ()}
    kept = [
        LastingStorage(_absolute(mount["mountPath"]), mount, volumes[mount["name"]])
        for mount in pod_spec["containers"][0].get("volumeMounts") or ()
        if mount["name"] in volumes and outlives_pods(volumes[mount["name"]])
    ]
    return tuple(storage for storage in kept if not any(_is_part(storage, other) for other in kept))


def place(folder: str | None, available: Sequence[LastingStorage], environment: Mapping[str, str]) -> StoragePlace:
    """Return the folder that the user means.

    Args:
        folder: As the pods see it; below the storage, if there is only one; or a key of mlops.env, such as OUTPUT_DIR.
            None for all of the only storage.
        available: The storages.
        environment: What mlops.env says.

    Raises:
        UsageError: It is on no storage, or there are several.
    """
    hint = ", ".join(f"{storage.path} ({storage.words})" for storage in available)
    if not available:
        message = "the package uses no storage that outlives its pods"
        raise UsageError(message, hint="switch a storage option on: mlpack configure PACKAGE --storage pvc")
    if folder is None:
        if len(available) > 1:
            raise UsageError("the package uses several storages: choose one with --folder", hint=f"there are: {hint}")
        return StoragePlace(available[0], available[0].path)
    path = environment.get(folder, folder) if "/" not in folder else folder
    if folder not in environment and not path.startswith("/"):
        if len(available) > 1:
            message = f"--folder: expected an absolute path or a key of mlops.env, found {folder!r}"
            raise UsageError(message, hint=f"there are: {hint}")
        path = f"{available[0].path}/{path}"
    path = _absolute(path)
    if ".." in path.split("/") or not path.isprintable():
        raise UsageError(f"--folder: expected a path without '..', found {folder!r}")
    covering = [storage for storage in available if PurePosixPath(path).is_relative_to(storage.path)]
    if not covering:
        raise UsageError(f"{path} is on no storage that outlives the pods", hint=f"there are: {hint}")
    return StoragePlace(max(covering, key=lambda storage: len(storage.path)), path)


def listed(shell: ContainerShell, where: StoragePlace, *, must_exist: bool = True) -> Listing:
    """Return what is in a folder and below it.

    Raises:
        ClusterError: It does not exist, unless it need not, or cannot be read.
        VerificationError: There is more than 200,000 entries.
    """
    try:
        answer = shell.ask(_LIST, where.storage.path, where.path)
    except ScriptError as error:
        if error.code == _NO_FOLDER:
            if not must_exist:
                return Listing()
            raise ClusterError(f"{where.path} does not exist on {where.storage.words}") from None
        if error.code == _LEADS_OUT:
            raise ClusterError(f"{where.path} is behind a link that leads out of {where.storage.words}") from None
        raise ClusterError(f"{where.path} cannot be read: {error}") from None
    return _listing(answer)


def digests(shell: ContainerShell, where: StoragePlace, files: Mapping[str, int]) -> dict[str, str]:
    """Return the SHA-256 of files in a folder, in hexadecimal digits; nothing of those that cannot be read.

    Args:
        shell: Of a pod with the storage.
        where: The folder.
        files: Their paths below the folder, and their sizes, which tell how long it may take.

    Raises:
        ClusterError: The folder cannot be read.
    """
    longer = sum(files.values()) / _BYTES_PER_SECOND
    by_path = {}
    for line in _ask_about(shell, _DIGESTS, where, files, longer) if files else ():
        digest, _, path = line.removeprefix("\\").partition("  ")
        if line.startswith("\\"):  # GNU writes a backslash as two, and marks the line
            path = path.replace("\\\\", "\\")
        by_path[path.removeprefix("./")] = digest
    return {path: by_path[path] for path in files if path in by_path}


def why_unread(shell: ContainerShell, where: StoragePlace, paths: Sequence[str]) -> tuple[str, ...]:
    """Return why files in a folder cannot be read: `a.txt: Permission denied`. Raises ClusterError."""
    reasons = _ask_about(shell, _WHY_UNREAD, where, paths) if paths else []
    named = zip(paths, [shown(text) for text in reasons], strict=False)
    return tuple(f"{shown(path)}: {text or 'it cannot be read'}" for path, text in named)


def _ask_about(
    shell: ContainerShell, script: str, where: StoragePlace, paths: Iterable[str], longer: float = 0
) -> list[str]:
    """Return the lines that a script writes which reads paths in a folder."""
    lines = "".join(f"./{path}\n" for path in paths).encode()
    arguments = (where.storage.path, where.path, str(len(lines)))
    try:
        answer = shell.ask(script, *arguments, given=[lines], longer=longer)
    except ScriptError as error:
        raise ClusterError(f"files in {where.path} cannot be read: {error}") from None
    return answer.decode(errors="replace").splitlines()


def _listing(answer: bytes) -> Listing:
    entries: dict[str, StoredEntry] = {}
    skipped: list[str] = []
    unread: list[str] = []
    unnamed = 0
    for line in answer.split(b"\n"):
        if line == b"?":
            unnamed += 1
        elif line.startswith((b"find: ", b"stat: ")):
            unread.append(shown(line.decode("utf-8", "surrogateescape").partition(": ")[2]))
        elif line:
            try:
                entry = _entry(line)
            except (ContentError, ValueError):
                name = line.split(b" ", 3)[-1].decode("utf-8", "surrogateescape")
                if len(skipped) < _MAX_SKIPPED:
                    skipped.append(shown(name.removeprefix("./")))
                else:
                    unnamed += 1
                continue
            entries[entry.path] = entry
            if len(entries) > MAX_FILES:
                raise VerificationError(f"the folder contains more than {MAX_FILES:,} files and folders")
    return Listing(
        tuple(entries[path] for path in sorted(entries)), tuple(skipped), unnamed, tuple(unread[:_MAX_SKIPPED])
    )


def _entry(line: bytes) -> StoredEntry:
    mode_digits, size, modified, name = line.split(b" ", 3)
    mode = int(mode_digits, 16)
    path = normalized(name.decode("utf-8", "surrogateescape"))
    if not path or not (size + modified.removeprefix(b"-")).isdigit() or len(size) > 18 or len(modified) > 12:
        raise ValueError(line)
    kind = "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "other"
    kind = "link" if stat.S_ISLNK(mode) else kind
    return StoredEntry(path, kind, int(size) if kind == "file" else 0, int(modified), bool(mode & stat.S_IXUSR))


def conflicts(files: Iterable[str], folders: Iterable[str], entries: Mapping[str, StoredEntry]) -> dict[str, str]:
    """Return why some of these files and folders cannot be made beside `entries`, by their paths."""
    reasons = {}
    for kind, path in (*(("file", path) for path in files), *(("folder", path) for path in folders)):
        steps = path.split("/")
        above = [entries.get("/".join(steps[:count])) for count in range(1, len(steps))]
        blocking = next((entry for entry in above if entry is not None and entry.kind != "folder"), None)
        entry = entries.get(path)
        if blocking is not None:
            reasons[path] = f"{blocking.path} is {_WORDS[blocking.kind]}"
        elif entry is not None and entry.kind != kind:
            reasons[path] = f"it exists and is {_WORDS[entry.kind]}"
    return reasons


_WORDS = {"file": "a file", "folder": "a folder", "link": "a link", "other": "neither a file nor a folder"}


def _absolute(path: str) -> str:
    return str(PurePosixPath("/") / path)


def _is_part(storage: LastingStorage, other: LastingStorage) -> bool:
    if storage is other or storage.volume["name"] != other.volume["name"]:
        return False
    return storage.path != other.path and PurePosixPath(storage.path).is_relative_to(other.path)

"""Finds the storage of a workload that outlives its pods, and lists and hashes the files on it.

Tests: cluster/test_workspace.py.
"""

from __future__ import annotations

import re
import stat
from copy import deepcopy
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, UsageError, VerificationError
from packager.cluster.output import storage_of
from packager.cluster.shell import ScriptError
from packager.package.path_checks import ContentError, normalized, shown
from packager.workloads.pods import outlives_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.cluster.shell import ContainerShell
    from packager.kubernetes.objects import Object

PARTS = ".mlpack-parts"
"""The folder for incomplete files, in the folder that files are pushed or pulled to."""

MAX_FILES = 200_000
"""The largest number of files and folders of a push or pull."""

_MAX_SKIPPED = 1_000

_DIGEST = re.compile("[0-9a-f]{64}")

# The lowest assumed speed of a storage, to distinguish a hanging command from a slow one without output.
_BYTES_PER_SECOND = 10 << 20

_NO_FOLDER, _LEADS_OUT = 3, 4

# The beginning of a script that works in a folder: $1 is the storage's mount path, $2 the folder.
ENTER = f"""
cd "$1" && root=$(pwd -P) || return 1
[ -d "$2" ] || return {_NO_FOLDER}
cd "$2" || return 1
case "$(pwd -P)/" in "${{root%/}}"/*) ;; *) return {_LEADS_OUT} ;; esac
"""

# Names with line feeds are only counted, since a line feed would end them in the listing.
_LIST = (
    ENTER
    + """
nl='
'
command -v find >/dev/null || { echo 'find: not found' >&2; return 127; }
find . -name '.mlpack-*' -prune -o -path ./lost+found -prune -o -name "*$nl*" -prune -o \\
    ! -name . -exec stat -c '%f %s %Y %n' {} + 2>&1
find . -name "*$nl*" -prune -exec echo '?' \\; 2>/dev/null
return 0
"""
)

# The list's length is passed, so that head stops reading at its end.
_DIGESTS = (
    ENTER
    + """
command -v sha256sum >/dev/null || { echo 'sha256sum: not found' >&2; return 127; }
head -c "$3" | tr '\\n' '\\000' | xargs -0 sha256sum -- || [ $? = 123 ]  # 123: of some files only
"""
)

# The reason why a file cannot be read follows the last colon of head's message.
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
    """A volume that outlives the pods, and its mount.

    Attributes:
        path: The mount path.
        mount: The container's mount of the volume.
        volume: The volume.
    """

    path: str
    mount: Object
    volume: Object

    @property
    def words(self) -> str:
        """The name of the storage in messages: `the folder resnet50 of the claim results`."""
        return storage_of(self.volume, self.mount)

    def writable(self) -> LastingStorage:
        """Return the storage with a mount for a pod that writes to it."""
        mount, volume = deepcopy(self.mount), deepcopy(self.volume)
        for part in (mount, *(source for source in volume.values() if isinstance(source, dict))):
            part.pop("readOnly", None)
        return LastingStorage(self.path, mount, volume)

    def read_only(self) -> LastingStorage:
        """Return the storage with a mount for a pod that only reads."""
        return LastingStorage(self.path, {**self.mount, "readOnly": True}, self.volume)


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """A folder of a storage.

    Attributes:
        storage: The storage.
        path: The folder's path in the pods.
    """

    storage: LastingStorage
    path: str


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of a folder of a storage.

    Attributes:
        path: The path below the folder.
        kind: `file`, `folder`, `link` or `other`.
        size: The size of a file in bytes; 0 for other kinds.
        modified: The time of the last change, in seconds since 1970.
        is_executable: Whether the file's owner may execute it.
    """

    path: str
    kind: str
    size: int
    modified: int
    is_executable: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of a folder.

    Attributes:
        entries: The entries, sorted by path.
        skipped: The first thousand names that are not allowed, fit for a terminal.
        unnamed: The number of further names that are not allowed.
        unread: The messages about unreadable entries, fit for a terminal.
    """

    entries: tuple[StoredEntry, ...] = ()
    skipped: tuple[str, ...] = ()
    unnamed: int = 0
    unread: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, StoredEntry]:
        """The files, by path."""
        return {entry.path: entry for entry in self.entries if entry.kind == "file"}


def storages(pod_spec: Object) -> tuple[LastingStorage, ...]:
    """Return the volumes that outlive the pods, in the order in which the main container mounts them.

    If mounts of one volume are nested, only the outermost is returned.
    """
    volumes = {volume["name"]: volume for volume in pod_spec.get("volumes") or ()}
    kept = [
        LastingStorage(_absolute(mount["mountPath"]), mount, volumes[mount["name"]])
        for mount in pod_spec["containers"][0].get("volumeMounts") or ()
        if mount["name"] in volumes and outlives_pods(volumes[mount["name"]])
    ]
    return tuple(storage for storage in kept if not any(_is_part(storage, other) for other in kept))


def place(folder: str | None, available: Sequence[LastingStorage], environment: Mapping[str, str]) -> StoragePlace:
    """Return the storage and path of the folder that the user named.

    Args:
        folder: The folder's path in the pods; a path below the only storage; or a key of mlops.env, such as
            OUTPUT_DIR. None for the only storage itself.
        available: The storages.
        environment: The values of mlops.env.

    Raises:
        UsageError: The folder is on no storage; the path is invalid; or there are several storages to choose from.
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
    """Return the entries in and below a folder.

    Raises:
        ClusterError: The folder cannot be read, or does not exist (only with `must_exist`).
        VerificationError: The folder contains more than MAX_FILES entries.
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
    """Return the SHA-256 of files in a folder by path, in hexadecimal digits; files without one are left out.

    Args:
        shell: The shell of a pod with the storage.
        where: The folder.
        files: The sizes of the files, by their paths below the folder; the sizes determine the time limit.

    Raises:
        ClusterError: The folder cannot be read.
    """
    longer = sum(files.values()) / _BYTES_PER_SECOND
    by_path = {}
    for line in _ask_about(shell, _DIGESTS, where, files, longer) if files else ():
        digest, _, path = line.removeprefix("\\").partition("  ")
        if line.startswith("\\"):  # GNU writes a backslash as two, and marks the line
            path = path.replace("\\\\", "\\")
        if _DIGEST.fullmatch(digest):  # it becomes the name of a file
            by_path[path.removeprefix("./")] = digest
    return {path: by_path[path] for path in files if path in by_path}


def why_unread(shell: ContainerShell, where: StoragePlace, paths: Sequence[str]) -> tuple[str, ...]:
    """Return the reasons why files cannot be read: `a.txt: Permission denied`. Raises ClusterError."""
    reasons = _ask_about(shell, _WHY_UNREAD, where, paths) if paths else []
    named = zip_longest(paths, reasons[: len(paths)])
    return tuple(f"{shown(path)}: {shown(text) if text else 'it cannot be read'}" for path, text in named)


def _ask_about(
    shell: ContainerShell, script: str, where: StoragePlace, paths: Iterable[str], longer: float = 0
) -> list[str]:
    """Run a script that reads paths in a folder, and return its lines. Raises ClusterError."""
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
    """Return the reasons why files and folders cannot be created beside `entries`, by path."""
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

"""Lists and hashes the files in a folder of a running container. Tests: cluster/test_copy_from_pod.py."""

import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

from packager.base.errors import ClusterError, VerificationError
from packager.base.process import Tell
from packager.cluster.shell import BrokenOffError, ContainerShell, ScriptError
from packager.kubernetes.kubectl.client import Kubectl
from packager.package.path_checks import ContentError, normalized, shown

Result = TypeVar("Result")

PARTS = ".mlpack-parts"
"""The remote folder for files that arrive, in the folder that they are pushed to."""

MAX_FILES = 200_000
"""The largest number of files and folders of a copy."""

_MAX_SKIPPED = 1_000
MOST_PROBLEMS = 20
CHUNK = 1 << 18

_DIGEST = re.compile("[0-9a-f]{64}")
_ENTRY = re.compile("(?P<mode>[0-9a-f]{1,8}) (?P<size>[0-9]{1,18}) (?P<time>-?[0-9]{1,11}) (?P<name>.+)")

TRIES = 5
PAUSE = 2.0

# The lowest assumed speed of a storage, to distinguish a hanging command from a slow one without output.
_BYTES_PER_SECOND = 10 << 20

_NO_FOLDER, _LEADS_OUT = 3, 4

# The beginning of a script that works in a folder: $1 is the mount path of its storage, $2 the folder.
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
# The list's length is passed, so that head stops reading at its end. xargs ends with 123 if some files cannot be read.
_DIGESTS = (
    ENTER
    + """
command -v sha256sum >/dev/null || { echo 'sha256sum: not found' >&2; return 127; }
head -c "$3" | tr '\\n' '\\000' | xargs -0 sha256sum -- 2>&1 || [ $? = 123 ]
"""
)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of a remote folder."""

    path: str  # below the folder
    kind: str  # file, folder, link or other
    size: int  # in bytes; 0 unless it is a file
    modified: int  # in seconds since 1970
    is_executable: bool = False  # by its owner


@dataclass(frozen=True, slots=True)
class Listing:
    """The contents of a remote folder."""

    entries: tuple[StoredEntry, ...] = ()  # sorted by path
    skipped: tuple[str, ...] = ()  # the first thousand names that are not allowed, fit for a terminal
    unnamed: int = 0  # the number of further names that are not allowed
    unread: tuple[str, ...] = ()  # messages about entries that cannot be read

    @property
    def files(self) -> dict[str, StoredEntry]:
        """The files, by path."""
        return {entry.path: entry for entry in self.entries if entry.kind == "file"}

    @property
    def odd(self) -> tuple[str, ...]:
        """The names that are not copied: links, devices, and names that are not allowed."""
        return (*(entry.path for entry in self.entries if entry.kind in ("link", "other")), *self.skipped)


@dataclass(frozen=True, slots=True)
class RemoteFolder:
    """A folder in a running container."""

    shell: ContainerShell
    root: str  # the mount path of its storage, which links may not lead out of
    path: str
    words: str  # the name of its storage in messages

    def entries(self, *, must_exist: bool = True) -> Listing:
        """Return the entries in and below the folder."""
        try:
            return _listing(self.shell.ask(_LIST, self.root, self.path))
        except ScriptError as error:
            if error.code == _NO_FOLDER and not must_exist:
                return Listing()
            raise self.read_error(error) from None

    def digests(self, files: Mapping[str, int]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the SHA-256 of files by path, in hexadecimal digits, and a message about each that cannot be read.

        Args:
            files: The sizes of the files, by path; they determine the time limit.
        """
        if not files:
            return {}, ()
        lines, size = as_lines(files)
        longer = sum(files.values()) / _BYTES_PER_SECOND
        try:
            answer = self.shell.ask(_DIGESTS, self.root, self.path, str(size), given=[lines], longer=longer)
        except ScriptError as error:
            raise self.read_error(error) from None
        by_path, reasons = {}, []
        for line in answer.decode(errors="replace").splitlines():
            digest, _, path = line.removeprefix("\\").partition("  ")
            if line.startswith("\\"):  # GNU writes a backslash as two, and marks the line
                path = path.replace("\\\\", "\\")
            if _DIGEST.fullmatch(digest):
                by_path[path.removeprefix("./")] = digest
            elif line.startswith("sha256sum: "):  # the reason follows the last colon
                reasons.append(line.rpartition(": ")[2])
        seen = {path: by_path[path] for path in files if path in by_path}
        unread = [path for path in files if path not in seen]
        named = zip_longest(unread, reasons[: len(unread)])
        return seen, tuple(f"{shown(path)}: {shown(why) if why else 'it cannot be read'}" for path, why in named)

    def read_error(self, error: ScriptError) -> ClusterError:
        """Return the error that explains why a script has failed."""
        if error.code == _NO_FOLDER:
            return ClusterError(f"{self.path} does not exist on {self.words}")
        if error.code == _LEADS_OUT:
            return ClusterError(f"{self.path} is behind a link that leads out of {self.words}")
        hint = "the pod's user cannot read it: check with kubectl exec POD -- id" if error.is_denied else None
        return ClusterError(f"{self.path} cannot be read: {error}", hint=hint)


def as_lines(paths: Iterable[str]) -> tuple[bytes, int]:
    """Return paths as lines for a script, and the number of their bytes."""
    lines = "".join(f"./{path}\n" for path in paths).encode()
    return lines, len(lines)


def _listing(answer: bytes) -> Listing:
    entries: dict[str, StoredEntry] = {}
    skipped: list[str] = []
    unread: list[str] = []
    unnamed = 0
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    for line in answer.split(b"\n"):
        text = line.decode("utf-8", "surrogateescape")
        if line == b"?":
            unnamed += 1
        elif text.startswith(("find: ", "stat: ")):
            unread.append(shown(text.partition(": ")[2]))
        elif match := _ENTRY.fullmatch(text):
            try:
                path, mode = normalized(match["name"]), int(match["mode"], 16)
            except ContentError:
                skipped.append(shown(match["name"].removeprefix("./")))
                continue
            kind = kinds.get(stat.S_IFMT(mode), "other")
            size = int(match["size"]) if kind == "file" else 0
            entries[path] = StoredEntry(path, kind, size, int(match["time"]), bool(mode & stat.S_IXUSR))
            if len(entries) > MAX_FILES:
                raise VerificationError(f"the folder contains more than {MAX_FILES:,} files and folders")
        elif line:
            skipped.append(shown(text))
    unnamed += max(0, len(skipped) - _MAX_SKIPPED)
    in_order = tuple(entries[path] for path in sorted(entries))
    return Listing(in_order, tuple(skipped[:_MAX_SKIPPED]), unnamed, tuple(unread[:_MAX_SKIPPED]))


def with_retries(
    kubectl: Kubectl,
    attempt: Callable[[], Result],
    tell: Tell,
    what: str,
    may_continue: Callable[[], bool] = lambda: True,
) -> Result:
    """Return the result of `attempt`; call it again after a broken connection: what has arrived is not copied again.

    Raises:
        BrokenOffError: All TRIES attempts have broken off, or no other makes sense.
    """
    for number in range(2, TRIES + 1):
        try:
            return attempt()
        except BrokenOffError as error:
            if not may_continue():
                raise
            tell(f"{what}: {error}; continuing (attempt {number} of {TRIES})")
            kubectl.runner.sleep(PAUSE)
    return attempt()

"""Tree: the files of a package, in memory or on disk, by path and mode; without links or paths that leave its root."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base import paths
from packager.base.errors import VerificationError, unreadable
from packager.base.paths import DEFAULT_LIMITS
from packager.base.values import Value, indented
from packager.package import inventory
from packager.package.layout import INVENTORY, is_editable, is_placement
from packager.package.path_checks import ContentError, Contents, inactive, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.paths import Limits

_CHUNK = 1 << 20
_EDITABLE_BYTES = 1 << 20

IGNORED_NAMES = frozenset((".git",))
"""Names at the root that are not part of a package: files that users keep beside it."""

_OF_TOOLS = re.compile(r"\.gitignore|(.*/)?(\.[^/]+\.sw[a-p]|[^/]+~|\.DS_Store)")


def is_of_tool(path: str) -> bool:
    """Return whether git, an editor or a desktop has left a file in a user's folder; no overlay may include it."""
    return _OF_TOOLS.fullmatch(path) is not None


class Entry(Value, frozen=True):
    """One file."""

    path: str  # the path below the package's root, with `/`
    content: bytes | Path  # the bytes; or the path on disk, for a file too large for memory
    size: int  # in bytes
    executable: bool = False  # whether it is mode 0755 rather than 0644

    @property
    def mode(self) -> int:
        """The mode, 0755 or 0644, independent of the modes of the source files."""
        return 0o755 if self.executable else 0o644


class Tree(Value, frozen=True):
    """A package: its name, its files in order of path, and the entries of its inventory beside their digests."""

    name: str
    entries: tuple[Entry, ...]
    about: Mapping[str, Any]

    @property
    def size(self) -> int:
        """The bytes of all files together."""
        return sum(entry.size for entry in self.entries)


def seal(tree: Tree, digests: Mapping[str, str]) -> Entry:
    """Return the inventory: the tree's own entries, sha256 and mode of every file, and the lines of some.

    These are the files that people edit; the lines show later what an edit has changed.
    """
    files = {entry.path: {"mode": f"{entry.mode:04o}", "sha256": digests[entry.path]} for entry in tree.entries}
    editable = {entry.path: lines for entry in tree.entries if (lines := _lines(entry))}
    about = {**tree.about, "files": files, "editable": editable}
    content = indented(json.dumps(about, ensure_ascii=False).encode()) + b"\n"
    return Entry(INVENTORY, content, len(content))


def _lines(entry: Entry) -> list[str] | None:
    """Return the lines of a file that people edit; None for other files, and for large or binary ones."""
    if not is_editable(entry.path) or entry.size > _EDITABLE_BYTES:
        return None
    try:
        return b"".join(chunks(entry)).decode().split("\n")
    except UnicodeDecodeError:
        return None


def digest_of(entry: Entry) -> str:
    """Return the sha256 of a file, in hex. Raises ToolError when it cannot be read."""
    hashed = hashlib.sha256()
    for chunk in chunks(entry):
        hashed.update(chunk)
    return hashed.hexdigest()


def component_digest(files: Mapping[str, str]) -> str:
    """Return the digest of the component of an option, without values that people edit."""
    lines = (f"{files[path]}  {path}\n" for path in sorted(files) if not is_placement(path))
    return hashlib.sha256("".join(lines).encode(errors="surrogatepass")).hexdigest()


def check(tree: Tree, limits: Limits) -> None:
    """Check that all these files are allowed in a package, as it is checked again when the package is opened."""
    contents = Contents(limits)
    contents.add_folder(tree.name)
    for path, size in (*((entry.path, entry.size) for entry in tree.entries), (INVENTORY, 0)):
        contents.add_file(f"{tree.name}/{inactive(path)}", size)


def digest(inventory: Entry) -> str:
    """Return the package's digest: its inventory's, which holds the digest of everything else."""
    assert isinstance(inventory.content, bytes)
    return f"sha256:{hashlib.sha256(inventory.content).hexdigest()}"


def chunks(entry: Entry) -> Iterator[bytes]:
    """Yield the content of `entry`, at most 1 MiB at a time. Raises ToolError when it cannot be read."""
    if isinstance(entry.content, bytes):
        yield entry.content
        return
    try:
        with paths.open_below(entry.content.parent, entry.content.name) as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise unreadable(entry.content, error) from None


def write(tree: Tree, folder: Path) -> Entry:
    """Write the tree's files and its inventory into the empty `folder`, and return the inventory."""
    digests = {entry.path: _write_file(folder, entry) for entry in tree.entries}
    inventory = seal(tree, digests)
    _write_file(folder, inventory)
    folder.chmod(0o755)
    return inventory


def _write_file(folder: Path, entry: Entry) -> str:
    """Write a file, and return its sha256 in hex."""
    hashed, path = hashlib.sha256(), folder / entry.path
    make_folders(folder, entry.path.rpartition("/")[0])
    with path.open("wb") as stream:
        for chunk in chunks(entry):
            hashed.update(chunk)
            stream.write(chunk)
    path.chmod(entry.mode)
    return hashed.hexdigest()


def read(folder: Path, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Return the package in `folder`, its files left on disk; `.git` and files of tools are not part of it.

    No link is followed, and nothing but plain files and folders is taken.
    """
    about = inventory.read(folder)
    entries = tuple(entry for entry in walk(folder, limits) if entry.path != INVENTORY and not is_of_tool(entry.path))
    return Tree(about["package"], entries, {key: about[key] for key in about if key not in ("files", "editable")})


def walk(folder: Path, limits: Limits = DEFAULT_LIMITS) -> list[Entry]:
    """Return the files below `folder`, left on disk, in order of path; without a `.git` at its root."""
    return sorted(_walk(folder, limits), key=lambda entry: entry.path)


def _walk(folder: Path, limits: Limits) -> Iterator[Entry]:
    contents = Contents(limits)
    pending = [contents.add_folder("")]
    while pending:
        parent = pending.pop()
        for name, status in _list(folder / parent, limits.files + 1):
            path = f"{parent}/{name}" if parent else name
            if path in IGNORED_NAMES:
                continue
            try:
                if stat.S_ISDIR(status.st_mode):
                    pending.append(contents.add_folder(path))
                    continue
                if not stat.S_ISREG(status.st_mode):
                    kind = "a link" if stat.S_ISLNK(status.st_mode) else "a device, a pipe or a socket"
                    raise ContentError(f"{shown(path)} is {kind}, not a plain file")  # noqa: TRY301
                contents.add_file(path, status.st_size)
            except ContentError as error:
                raise VerificationError(f"{folder}: {error}") from None
            yield Entry(path, folder / path, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def _list(folder: Path, limit: int) -> list[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as listing:
            return [(item.name, item.stat(follow_symlinks=False)) for item in itertools.islice(listing, limit)]
    except OSError as error:
        raise unreadable(folder, error) from None


def make_folders(folder: Path, path: str) -> None:
    """Make the folder `path` below `folder`, and those above it, where they are not."""
    step = folder / path
    if not step.is_dir():
        make_folders(folder, path.rpartition("/")[0])
        step.mkdir()
        step.chmod(0o755)  # whatever the umask


def link(source: str | Path, path: str | Path) -> None:
    """Give a file another name, or copy it where that is not possible."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, path, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copy2(source, path, follow_symlinks=False)

"""Tree: a package as files in memory or on disk, by path and mode; nothing in it is a link or leaves its root."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager import manifest
from packager.contents import DEFAULT, ContentError, Contents, shown
from packager.errors import VerificationError, unreadable
from packager.manifest import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.contents import Limits

_CHUNK = 1 << 20

# What people keep beside a package's files, at its root, and no package brings.
_NOT_OURS = frozenset((".git",))


@dataclass(frozen=True, slots=True)
class Entry:
    """One file.

    Attributes:
        path: Below the package's root, with `/`.
        content: Its bytes; or where on disk they are, for a file too large to hold.
        size: In bytes.
        executable: Whether it is mode 0755 rather than 0644.
    """

    path: str
    content: bytes | Path
    size: int
    executable: bool = False

    @property
    def mode(self) -> int:
        """0755 or 0644: whatever modes the files had that a package is built from."""
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True, slots=True)
class Tree:
    """A package: its name, its files in order of path, and what its manifest says beside their digests."""

    name: str
    entries: tuple[Entry, ...]
    about: Mapping[str, Any]

    @property
    def size(self) -> int:
        """The bytes of all files together."""
        return sum(entry.size for entry in self.entries)


def seal(tree: Tree, digests: Mapping[str, str]) -> Entry:
    """Return the manifest: what the tree says of itself, and sha256 and mode of every file.

    Args:
        tree: The tree.
        digests: The sha256 of each file, in hex, by path.
    """
    files = {entry.path: {"mode": f"{entry.mode:04o}", "sha256": digests[entry.path]} for entry in tree.entries}
    content = json.dumps({**tree.about, "files": files}, ensure_ascii=False, indent=2).encode() + b"\n"
    return Entry(MANIFEST, content, len(content))


def digest(manifest: Entry) -> str:
    """Return the package's digest: its manifest's, which holds the digest of everything else."""
    assert isinstance(manifest.content, bytes)
    return f"sha256:{hashlib.sha256(manifest.content).hexdigest()}"


def chunks(entry: Entry) -> Iterator[bytes]:
    """Yield the content of `entry`, at most 1 MiB at a time. Raises ToolError when it cannot be read."""
    if isinstance(entry.content, bytes):
        yield entry.content
        return
    try:
        with entry.content.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise unreadable(entry.content, error) from None


def write(tree: Tree, folder: Path) -> Entry:
    """Write the tree's files and its manifest into the empty `folder`, and return the manifest.

    Raises:
        ToolError: A file on disk cannot be read.
        OSError: `folder` cannot be written.
    """
    digests = {}
    for entry in tree.entries:
        hashed = hashlib.sha256()
        path = _place(folder, entry)
        with path.open("wb") as stream:
            for chunk in chunks(entry):
                hashed.update(chunk)
                stream.write(chunk)
        path.chmod(entry.mode)
        digests[entry.path] = hashed.hexdigest()
    manifest = seal(tree, digests)
    assert isinstance(manifest.content, bytes)
    path = _place(folder, manifest)
    path.write_bytes(manifest.content)
    path.chmod(manifest.mode)
    folder.chmod(0o755)
    return manifest


def read(folder: Path, limits: Limits = DEFAULT) -> Tree:
    """Return the package in `folder`, its files left on disk; `.git` at its root is none of it.

    No link is followed, and nothing but plain files and folders is taken.

    Raises:
        VerificationError: There is no manifest, or one that cannot be read; or something there is no file of a
            package: a link, a device, a name that not every system can hold.
        ToolError: A file cannot be read.
    """
    about = manifest.read(folder)
    entries = tuple(entry for entry in walk(folder, limits) if entry.path != MANIFEST)
    return Tree(about["package"], entries, {key: about[key] for key in about if key != "files"})


def walk(folder: Path, limits: Limits = DEFAULT) -> list[Entry]:
    """Return the files below `folder`, left on disk, in order of path; without a `.git` at its root.

    Raises:
        VerificationError: There is something else there than plain files and folders with names that every system
            can hold, or more than `limits` allow.
        ToolError: A folder cannot be read.
    """
    return sorted(_walk(folder, limits), key=lambda entry: entry.path)


def _walk(folder: Path, limits: Limits) -> Iterator[Entry]:
    contents = Contents(limits)
    waiting = [""]
    while waiting:
        above = waiting.pop()
        for name, status in _list(folder / above):
            path = f"{above}/{name}" if above else name
            if path in _NOT_OURS:
                continue
            try:
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(contents.add_folder(path))
                    continue
                if not stat.S_ISREG(status.st_mode):
                    raise ContentError(f"{shown(path)} is {_kind(status.st_mode)}, not a plain file")  # noqa: TRY301
                contents.add_file(path, status.st_size)
            except ContentError as error:
                raise VerificationError(f"{folder}: {error}") from None
            yield Entry(path, folder / path, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def _list(folder: Path) -> list[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as listing:
            return [(item.name, item.stat(follow_symlinks=False)) for item in listing]
    except OSError as error:
        raise unreadable(folder, error) from None


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link"
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        return "a device"
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket"


def _place(folder: Path, entry: Entry) -> Path:
    path = folder / entry.path
    for parent in reversed(path.relative_to(folder).parents[:-1]):
        step = folder / parent
        if not step.is_dir():
            step.mkdir()
            step.chmod(0o755)  # whatever the umask
    return path

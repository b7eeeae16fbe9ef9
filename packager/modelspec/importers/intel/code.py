"""The files of a package of Intel's Model Zoo: copied over each other, in order, from a checkout of the zoo.

IntelAI/models, tools/docker/assembler.py, get_file: a folder is copied over existing files, without `.gitignore` and
the `.docs` at its top. Only a link in a folder to a plain file of the same checkout is followed, except to files that
a package leaves out, such as `.git/config`.

Tests: modelspec/importers/intel/test_read.py.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from typing import TYPE_CHECKING

from packager.base.errors import reason
from packager.base.fields import ASSET_PATH
from packager.base.problems import show
from packager.base.values import Value
from packager.modelspec.excluded import is_excluded
from packager.modelspec.importers.source import printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from packager.modelspec.importers.source import ForeignValue

_MOST_FILES = 5_000
_LARGEST = 64 << 20
_LONGEST_PATH = 200


class ZooFile(Value, frozen=True):
    """A file of the checkout, and the entry that copies it."""

    path: Path
    size: int
    executable: bool
    entry: ForeignValue


def collected(items: Iterable[ForeignValue], root: Path) -> dict[str, ZooFile]:
    """Return the files of a package by their paths in it; add a problem for each item that cannot be copied."""
    files: dict[str, ZooFile] = {}
    total = 0
    for item in items:
        source, destination = item.at("source"), item.at("destination")
        start = relative(source)
        target = relative(destination)
        if source is None or destination is None or start is None or target is None:
            if source is None or destination is None:
                item.refuse("expected source and destination")
            continue
        for name, file in _walk(root, start, source):
            path = posixpath.normpath(posixpath.join(target, name)) if name else target
            if not re.match(ASSET_PATH, path):
                source.refuse(f"{show(printable(path))}: expected letters, digits and - . _ + @ between the slashes")
                break
            if len(path) > _LONGEST_PATH:
                message = f"expected a path of at most {_LONGEST_PATH} characters, found {len(path):,}"
                source.refuse(message, show(path))
                break
            files[path] = file
            total += file.size
            if len(files) > _MOST_FILES or total > _LARGEST:
                source.refuse(f"the files are more than {_MOST_FILES:,}, or than {_LARGEST >> 20} MiB")
                return files
    return files


def relative(entry: ForeignValue | None) -> str | None:
    """Return a path below the checkout or the package; None, with a problem, for a path that is not below it."""
    text = (entry.text() or "").strip() if entry else ""
    if entry is None:
        return None
    path = posixpath.normpath(text)
    if not text or "\x00" in text or "\\" in text or path.startswith(("/", "..")):
        entry.refuse(f"expected a path below the folder, found {show(printable(text))}")
        return None
    return path


def _walk(root: Path, start: str, entry: ForeignValue) -> Iterable[tuple[str, ZooFile]]:
    """Yield the files at and below `start` with their paths below it; the path of a single file is empty."""
    top = plain_path(root, start)
    if top is None:
        hint = "the zoo cannot make this package either, unless --models-dir names a checkout that has it"
        entry.refuse(f"{printable(start)!r} not found below {root}", hint)
        return
    info = top.lstat()
    if stat.S_ISREG(info.st_mode):
        yield "", ZooFile(top, info.st_size, bool(info.st_mode & stat.S_IXUSR), entry)
        return
    errors: list[OSError] = []
    for folder, folders, names in os.walk(top, onerror=errors.append):
        below = os.path.relpath(folder, top)
        folders[:] = sorted(name for name in folders if not (below == "." and name == ".docs"))
        for name in sorted(names):
            if name == ".gitignore":
                continue
            path = _followed(top.__class__(folder) / name, root)
            info = path.lstat()
            shown = posixpath.normpath(posixpath.join(below, name))
            if not stat.S_ISREG(info.st_mode):
                entry.refuse(f"{show(printable(shown))} is not a plain file")
                return
            yield shown, ZooFile(path, info.st_size, bool(info.st_mode & stat.S_IXUSR), entry)
        for name in folders:
            if (top.__class__(folder) / name).is_symlink():
                entry.refuse(f"{show(printable(name))} is a link, which is not followed")
                return
    for error in errors:
        entry.refuse(f"{show(start)} cannot be read: {reason(error)}")


def _followed(path: Path, root: Path) -> Path:
    """Return the plain file of the checkout that the link `path` leads to; `path` itself if it is not such a link."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return path
    is_followed = real.is_relative_to(root) and real.is_file()
    return real if is_followed and not any(map(is_excluded, real.relative_to(root).parts)) else path


def plain_path(root: Path, path: str) -> Path | None:
    """Return the path of the file or folder at `path` below `root`; None if there is none, or a link is on the way."""
    current = root
    try:
        for step in path.split("/"):
            if step == ".":
                continue
            current = current / step
            if current.is_symlink():
                return None
        current.lstat()
    except (OSError, ValueError):
        return None
    return current

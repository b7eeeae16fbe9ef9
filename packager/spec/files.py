"""The files that a spec names: found, measured, and kept inside the spec's folder."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from packager.errors import reason
from packager.problems import similar
from packager.spec.check import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.spec.model import Spec
    from packager.yamlio import Location


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file on disk that goes into the package.

    Attributes:
        name: Its path below the spec's folder, with `/`.
        path: Where it is.
        size: In bytes.
        executable: Whether its owner may execute it.
    """

    name: str
    path: Path
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Sources:
    """What a spec brings: code for the ConfigMap, assets of any size, the image's Dockerfile."""

    files: tuple[SourceFile, ...]
    assets: tuple[SourceFile, ...]
    dockerfile: SourceFile | None


def collect(folder: Path, spec: Spec) -> tuple[Sources, list[Fault]]:
    """Find every file that `spec` names below `folder`.

    Returns:
        The files that can be used, and why each of the others cannot: missing, not a file, or a link that leaves
        the folder (links inside it are followed: the package holds none).
    """
    faults: list[Fault] = []
    root = folder.resolve()

    def one(name: str, location: Location) -> SourceFile | None:
        found = _look(root, name)
        if isinstance(found, SourceFile):
            return found
        faults.append(Fault(location, found, _likely(root, name)))
        return None

    files = [one(name, ("files", index)) for index, name in enumerate(spec.files)]
    dockerfile = one(spec.image.dockerfile, ("image", "dockerfile")) if spec.image.dockerfile else None
    assets: dict[str, SourceFile] = {}
    for index, name in enumerate(spec.assets):
        for found in _walk(root, name):
            if isinstance(found, SourceFile):
                assets[found.name] = found
            else:
                faults.append(Fault(("assets", index), found))
    return Sources(
        tuple(file for file in files if file), tuple(assets[name] for name in sorted(assets)), dockerfile
    ), faults


def _look(root: Path, name: str) -> SourceFile | str:
    """Return the file `name` below `root`, or what is wrong with it."""
    try:
        real = (root / name).resolve(strict=True)
        info = real.stat()
    except FileNotFoundError:
        return f"expected a file, found none: {name}"
    except (OSError, RuntimeError) as error:
        return f"{name} cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}"
    wrong = None
    if not real.is_relative_to(root):
        wrong = f"{name} is a link that leaves the spec's folder"
    elif stat.S_ISDIR(info.st_mode):
        wrong = f"expected a file, found a folder: {name}"
    elif not stat.S_ISREG(info.st_mode):
        wrong = f"expected a file, found a special file: {name}"
    elif not os.access(real, os.R_OK):
        wrong = f"{name} cannot be read: permission denied"
    return wrong or SourceFile(_utf8(name), real, info.st_size, bool(info.st_mode & stat.S_IXUSR))


def _utf8(name: str) -> str:
    """Return the name that the file's bytes spell in UTF-8, whatever the locale took them for."""
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def _likely(root: Path, name: str) -> str | None:
    """Return a hint for a file that is not there: the one beside it with nearly this name."""
    path = root / name
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:  # no folder, or one that may not be listed
        return None
    if path.name in beside:
        return None
    above = name.rpartition("/")[0]
    return similar(name, [f"{above}/{entry}" if above else entry for entry in beside])


def _walk(root: Path, name: str) -> Iterator[SourceFile | str]:
    top = root / name
    try:
        is_inside = top.is_dir() and top.resolve().is_relative_to(root)
    except OSError:
        is_inside = False
    if not is_inside:
        yield _look(root, name)
        return
    unread: list[OSError] = []
    empty = True
    for folder, folders, names in os.walk(top, onerror=unread.append):
        folders.sort()
        for entry in sorted([*names, *(entry for entry in folders if (Path(folder) / entry).is_symlink())]):
            empty = False
            yield _look(root, (Path(folder) / entry).relative_to(root).as_posix())
    yield from (f"{error.filename} cannot be read: {reason(error)}" for error in unread)
    if empty and not unread:
        yield f"expected files, found an empty folder: {name}"

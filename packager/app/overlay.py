"""Writes overlays outside of their package, and carries them over to a newer build. Tests: cli/test_overlay.py."""

from __future__ import annotations

import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import atomic, envfile, paths
from packager.base.errors import UnansweredError, UsageError, VerificationError
from packager.base.limits import DEFAULT
from packager.base.problems import Problem
from packager.base.values import Value
from packager.cluster.target import chosen_overlays
from packager.configure.upgrade.merge import Choice, Conflict, Versions, merged
from packager.package import integrity, layout, outside
from packager.package.opened import opened
from packager.package.outside import OutsideOverlay

__all__ = ["Choice", "WrittenOverlay", "write"]

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.package.opened import Package

_MAX_BYTES = 1 << 20


class WrittenOverlay(Value, frozen=True):
    """An overlay outside of its package."""

    folder: Path
    is_new: bool
    new_keys: tuple[str, ...]  # of env files that only the newer package has, each as `FILE: KEY`

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"folder": str(self.folder), "new": self.is_new, "new_keys": list(self.new_keys)}


def write(
    path: Path,
    folder: Path,
    name: str | None,
    choices: Mapping[Path, Choice] = MappingProxyType({}),
    *,
    dry_run: bool = False,
) -> tuple[WrittenOverlay, ...]:
    """Write overlays of a package to folders of their names; those that are there are carried over to the package.

    Args:
        path: The folder of the package.
        folder: The folder that contains the overlays.
        name: The overlay; None for all.
        choices: The version to take where a file of an overlay conflicts.
        dry_run: Whether nothing is written.

    Raises:
        UsageError: The path is no package in a folder, or a folder contains something else than such an overlay.
        VerificationError: A file of the package is not as it was sealed.
        UnansweredError: Both the overlay and the package changed the same place; nothing is written.
    """
    if paths.is_file(path):
        raise UsageError(f"{path} is an archive, and an overlay names folders in its package", hint="unpack it first")
    with opened(path) as package:
        if package.outside:
            raise UsageError(f"{path} is itself an overlay of {package.outside.package}")
        if problems := integrity.check(package, DEFAULT).problems:
            raise VerificationError(f"{path} is not as it was sealed", problems=problems)
        names = chosen_overlays(package, name)
        planned = [(folder / overlay, *_contents(package, folder / overlay, overlay, choices)) for overlay in names]
        if problems := [problem for *_, found in planned for problem in found]:
            count = f"{len(problems)} conflict{'s' if len(problems) > 1 else ''}"
            hint = "--yours FILE keeps your version where it conflicts, --theirs FILE takes the new one"
            raise UnansweredError(f"{count}: {folder} was left as it is", hint=hint, problems=problems)
        return tuple(_write(package, overlay, contents, dry_run=dry_run) for overlay, contents, _ in planned)


def _of(package: Package, folder: Path, name: str, delivered: Mapping[str, str]) -> OutsideOverlay:
    framework = next(path.split("/")[2] for path in package.inventory["files"] if layout.component(path))
    return OutsideOverlay(folder, package.folder, name, framework, package.digest, package.version, delivered)


def _contents(
    package: Package, folder: Path, name: str, choices: Mapping[Path, Choice]
) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the contents of an overlay by their paths in the package, and its undecided conflicts."""
    own = _of(package, folder, name, {})
    theirs = {path: package.reader.read(path, _MAX_BYTES) for path in package.inventory["files"] if own.is_own(path)}
    old = outside.find(folder)
    if old is None:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} contains something else than an overlay of {package.name}")
        return theirs, []
    contents = dict(theirs)
    conflicts: list[Conflict] = []
    for path, yours in old.files():
        if not own.is_own(path):  # an option that the package has now
            continue
        base = old.delivered[path].encode(errors="surrogateescape") if path in old.delivered else None
        new = theirs.get(path)
        if new in (base, None) or base is None:
            if new is None and base is not None and yours == base:
                continue  # the new package does not have it any more
            contents[path] = yours
        elif yours != base:
            choice = choices.get(own.place(path))
            result = merged(path, Versions(base, yours, new), choice)
            contents[path] = result.content
            conflicts += result.conflicts if choice is None else ()
    return contents, [Problem(str(own.place(it.path)), it.line, min(it.line, 1), it.message) for it in conflicts]


def _write(package: Package, folder: Path, contents: Mapping[str, bytes], *, dry_run: bool) -> WrittenOverlay:
    """Write an overlay in place of the present one, with the other files in its folder."""
    old = outside.find(folder)
    own = _of(package, folder, folder.name, {})
    delivered = {
        path: (package.sealed(path) or package.reader.read(path, _MAX_BYTES)).decode(errors="surrogateescape")
        for path in package.inventory["files"]
        if own.is_own(path)
    }
    own = _of(package, folder, folder.name, delivered)
    written = WrittenOverlay(folder, old is None, tuple(_new_keys(own, old)) if old else ())
    if dry_run:
        return written
    files = {own.place(path): own.written(path, content) for path, content in contents.items()}
    files.update(own.extras(package.name))
    with atomic.folder(folder) as work:
        if old is not None:
            shutil.copytree(folder, work, dirs_exist_ok=True, symlinks=True)
            for path in old.delivered:
                (work / old.place(path).relative_to(folder)).unlink(missing_ok=True)
        for file, content in files.items():
            target = work / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return written


def _new_keys(own: OutsideOverlay, old: OutsideOverlay) -> Iterator[str]:
    for path in own.delivered.keys() & old.delivered.keys():
        if path.endswith(".env"):
            before = set(envfile.keys(old.delivered[path].encode(errors="surrogateescape")))
            for key in envfile.keys(own.delivered[path].encode(errors="surrogateescape")):
                if key not in before:
                    yield f"{own.place(path)}: {key}"

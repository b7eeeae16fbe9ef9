"""Writes overlays outside of their package, and carries them over to a newer build. Tests: cli/test_overlay.py."""

from __future__ import annotations

import shutil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from packager.base import atomic, envfile, paths
from packager.base.errors import UsageError, VerificationError
from packager.base.paths import DEFAULT_LIMITS
from packager.base.problems import Problem
from packager.base.values import Value
from packager.configure import additions, settings
from packager.configure.merge import Choice, Conflict, Versions, merged, unanswered
from packager.package import integrity, kustomization, layout, outside, placement
from packager.package.opened import chosen_overlays, opened
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
    """Write overlays of a package to folders of their names; those that are there are carried over to the package."""
    if paths.is_file(path):
        raise UsageError(f"{path} is an archive, and an overlay names folders in its package", hint="unpack it first")
    with opened(path) as package:
        if package.outside:
            raise UsageError(f"{path} is itself an overlay of {package.outside.package}")
        if folder.resolve().is_relative_to(package.folder.resolve()):
            raise UsageError(f"{folder} is in the package", hint="choose a folder outside of it")
        if any(layout.component(file) == (layout.SITE, layout.PLACEMENT) for file in package.inventory["files"]):
            hint = "build it again, or edit it in its folder"
            raise UsageError(f"{path} was built by mlpack 0.2.0 or before: it has no overlays outside", hint=hint)
        if problems := integrity.check(package, DEFAULT_LIMITS).problems:
            raise VerificationError(f"{path} is not as it was sealed", problems=problems)
        names = chosen_overlays(package, name)
        planned = [_planned(package, folder / overlay, overlay, choices) for overlay in names]
        if problems := [problem for overlay in planned for problem in overlay.conflicts]:
            raise unanswered(problems, folder)
        return tuple(_write(package, overlay, dry_run=dry_run) for overlay in planned)


class _Planned(Value, frozen=True):
    """The files of an overlay that are decided and not written yet."""

    folder: Path
    contents: dict[str, bytes]  # by the paths in the package
    new_keys: tuple[str, ...] = ()
    conflicts: tuple[Problem, ...] = ()  # those without a choice


def _of(package: Package, folder: Path, name: str, delivered: Mapping[str, str]) -> OutsideOverlay:
    framework = next(path.split("/")[2] for path in package.inventory["files"] if layout.component(path))
    return OutsideOverlay(folder, package.folder, name, framework, package.digest, package.version, delivered)


def _planned(package: Package, folder: Path, name: str, choices: Mapping[Path, Choice]) -> _Planned:
    own = _of(package, folder, name, {})
    theirs = {path: package.reader.read(path, _MAX_BYTES) for path in package.inventory["files"] if own.is_own(path)}
    old = outside.find(folder)
    if old is None:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} contains something else than an overlay of {package.name}")
        return _Planned(folder, theirs)
    present = {path: content for path, content in old.files() if own.is_own(path)}
    wanted, values = (
        _wanted(old, present),
        b"".join(present[path] for path in present if path.endswith(layout.site_env(""))),
    )
    delivered = {path: text.encode(errors="surrogateescape") for path, text in old.delivered.items()}
    files = settings.Files(package)
    for path, content in delivered.items():
        files.write(path, content)
    additions.offer_as_delivered(files, {name: wanted}, values)
    before = {path: placement.built(package.name) for path in present if layout.is_placement(path)}
    before |= {path: files.changed().get(path, content) for path, content in delivered.items()}
    files = settings.Files(package)
    additions.offer(files, {name: wanted}, values)
    theirs |= files.changed()
    new_keys = tuple(f"{own.place(path)}: {key}" for path, key in _new_keys(theirs, delivered, present))
    contents = dict(theirs)
    conflicts: list[Conflict] = []
    for path, yours in present.items():
        base, new = before.get(path), theirs.get(path)
        if base is None or new is None:
            is_of_option = new is not None and layout.component_of(path)  # which users do not edit
            if yours != base and not is_of_option:  # else the new package does not have it any more
                contents[path] = yours
            continue
        choice = choices.get(own.place(path))
        result = merged(path, Versions(base, yours, new), choice)
        contents[path] = result.content
        conflicts += result.conflicts if choice is None else ()
    problems = tuple(Problem(str(own.place(it.path)), it.line, min(it.line, 1), it.message) for it in conflicts)
    return _Planned(folder, contents, new_keys, problems)


def _wanted(overlay: OutsideOverlay, present: Mapping[str, bytes]) -> list[str]:
    """Return the names of the components that are on in an overlay, or were added to it."""
    added = {layout.component_of(path) for path in present if path not in overlay.delivered}
    listed = kustomization.components(present.get(layout.kustomization(overlay.name), b""))
    return [component.name for component in listed if component.on or component.name in added]


def _new_keys(theirs: Mapping[str, bytes], *before: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the keys of env files that neither the delivered version nor the user's has, with their files."""
    for path in sorted(theirs):
        if path.endswith(".env") and path in before[0]:
            present = {key for contents in before for key in envfile.keys(contents.get(path, b""))}
            yield from ((path, key) for key in dict.fromkeys(envfile.keys(theirs[path])) if key not in present)


def _write(package: Package, planned: _Planned, *, dry_run: bool) -> WrittenOverlay:
    """Write an overlay in place of the present one, with the other files in its folder."""
    folder = planned.folder
    old = outside.find(folder)
    written = WrittenOverlay(folder, old is None, planned.new_keys)
    if dry_run:
        return written
    own = _of(package, folder, folder.name, {})
    delivered = {
        path: (package.sealed(path) or package.reader.read(path, _MAX_BYTES)).decode(errors="surrogateescape")
        for path in package.inventory["files"]
        if own.is_own(path)
    }
    own = _of(package, folder, folder.name, delivered)
    files = {own.place(path): own.written(path, content) for path, content in planned.contents.items()}
    files.update(own.extras(package.name))
    with atomic.folder(folder) as work:
        if old is not None:
            shutil.copytree(folder, work, dirs_exist_ok=True, symlinks=True)
            for path, _ in old.files():
                (work / old.place(path).relative_to(folder)).unlink(missing_ok=True)
        for file, content in files.items():
            target = work / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    return written

"""Reads the values in a package's files: mlops.env, the patches, the options. Tests: configure/test_changes.py."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING

from packager.base import envfile, paths, yamlio
from packager.base.problems import Problem
from packager.base.values import replace
from packager.kubernetes.manifest import Manifest, mapping
from packager.package import ids as patch_ids
from packager.package import kustomization, layout
from packager.package.layout import COMMON, env
from packager.package.options import BY_NAME, KEYS, faults
from packager.rendering import kustomization as judged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.builder.render import Components
    from packager.package.opened import Package
    from packager.rendering.origins import Position
    from packager.rendering.sources import Sources

_MAX_BYTES = 1 << 20
"""The bytes of a ConfigMap that Kubernetes accepts; an env file becomes one."""


class Files:
    """A package's files, with the changes made so far."""

    def __init__(self, package: Package) -> None:
        """Start without changes."""
        self.package = package
        self._before: dict[str, bytes | None] = {}
        self._changed: dict[str, bytes] = {}
        self._sources: dict[str, Sources] = {}

    @cached_property
    def original(self) -> Files:
        """The files without the changes."""
        return Files(self.package)

    @cached_property
    def components(self) -> Components:
        """The components that the package has, or could have."""
        from packager.builder.rebuild import components  # noqa: PLC0415 - imports jinja2, which few edits need

        return components(self.package)

    def read(self, path: str) -> bytes:
        """Return the content of a file, by its path below the package's root."""
        if path in self._changed:
            return self._changed[path]
        content = self._before.get(path)
        if content is None:
            content = self._before[path] = self._read(path)
        return content

    def _read(self, path: str) -> bytes:
        return paths.read(self.package.folder, path, self.package.shown(path), _MAX_BYTES)

    def before(self, path: str) -> bytes | None:
        """Return the content of a file as it was first read; None if there was no such file."""
        if path not in self._before:
            self._before[path] = self._on_disk(path)
        return self._before[path]

    def _on_disk(self, path: str) -> bytes | None:
        return self._read(path) if (self.package.folder / path).is_file() else None

    def write(self, path: str, content: bytes) -> None:
        """Change a file, or add one; nothing is written to disk."""
        before = self._changed.get(path, self.before(path))
        if content == before:
            return
        if not self._changed:
            self.original._sources.update(self._sources)  # noqa: SLF001 - it is of this class
        self._changed[path] = content
        for overlay, sources in [*self._sources.items()]:
            if path in sources.files or before is None:  # an overlay may name a new file
                del self._sources[overlay]

    def assign(self, path: str, key: str, value: str) -> None:
        """Set a key of an env file."""
        self.write(path, envfile.assign(self.read(path), key, value, self.package.shown(path)))

    def switch(self, overlay: str, component: str, *, on: bool) -> None:
        """Switch a component of an overlay on or off, if its kustomization lists or offers it."""
        path = layout.kustomization(overlay)
        self.write(path, kustomization.switch(self.read(path), component, self.package.shown(path), on=on))

    def add_component(self, overlays: Sequence[str], name: str, contents: Mapping[str, bytes]) -> None:
        """Write a component of the site's own, with these contents by the names of files, and list it in overlays."""
        folder = f"{layout.ADDED}/{name}"
        for file, content in contents.items():
            self.write(f"{folder}/{file}", content)
        for overlay in overlays:
            self.switch(overlay, name, on=True)
            path, listed = layout.kustomization(overlay), posixpath.relpath(folder, layout.overlay(overlay))
            self.write(path, kustomization.add(self.read(path), listed, self.package.shown(path)))

    def sources(self, overlay: str) -> Sources:
        """Return the sources of an overlay with these changes; they are read again only after one has changed."""
        if overlay not in self._sources:
            self._sources[overlay] = judged.read(self.edited_package(), layout.overlay(overlay))
        return self._sources[overlay]

    def edited_package(self) -> Package:
        """Return the package as it would be with these changes."""
        return replace(self.package, reader=self.package.reader.edited(self._changed))

    def changed(self) -> dict[str, bytes]:
        """Return the new content of every file that differs from the one that was read."""
        return {path: new for path, new in self._changed.items() if new != self.before(path)}


def site_files(package: Package) -> list[str]:
    """Return the paths of the env files that options read."""
    files = package.folder.glob(f"{COMMON}/*/*.env")
    return sorted(path.relative_to(package.folder).as_posix() for path in files if path.is_file())


def placement_file(files: Files) -> str | None:
    """Return the path of the values of the option `placement`; None if the package has no such file."""
    folder = files.package.folder
    own = [path.relative_to(folder).as_posix() for path in folder.glob(f"{COMMON}/*/{layout.PLACEMENT}")]
    return next(filter(layout.is_placement, (*files.changed(), *own)), None)


def patches(files: Files, overlay: str) -> list[str]:
    """Return the paths of the patches in the overlay's folder."""
    path = layout.kustomization(overlay)
    names = kustomization.patches(files.read(path), files.package.shown(path))
    return [f"{layout.overlay(overlay)}/{name}" for name in names]


def value(files: Files, overlay: str, key: str) -> str | None:
    """Return the value of `key` in the overlay's mlops.env; None when it has none."""
    return next((line.value for line in envfile.lines(files.read(env(overlay))) if line.key == key), None)


def ids(files: Files, overlay: str) -> dict[str, object]:
    """Return runAsUser, runAsGroup and fsGroup as the overlay's patches set them."""
    values: dict[str, object] = {}
    for path in patches(files, overlay):
        values = patch_ids.read(files.read(path), files.package.shown(path)) | values
    return values


def invalid_ids(files: Files, overlay: str) -> Iterator[Problem]:
    """Yield the ids of the overlay's patches that no user or group has."""
    for path in patches(files, overlay):
        yield from patch_ids.invalid_ids(files.read(path), files.package.shown(path))


def manifests(files: Files, overlay: str) -> list[str]:
    """Return the paths of the overlay's own manifests."""
    folder = layout.overlay(overlay)
    names = [f"{folder}/{path.name}" for path in sorted((files.package.folder / folder).glob("*.yaml"))]
    return [name for name in names if name != layout.kustomization(overlay) and not layout.is_patch(name)]


def workloads(files: Files, overlay: str) -> Iterator[Manifest]:
    """Yield each object that the overlay's own files describe; nothing of a file that cannot be read as YAML."""
    for name in manifests(files, overlay):
        documents, _ = yamlio.load_all(files.read(name), files.package.shown(name))
        yield from (Manifest(mapping(document.data)) for document in documents)


def options(files: Files, overlay: str) -> dict[str, bool]:
    """Return the site options that the overlay lists or offers, and whether each is on.

    Those are on that `mlpack verify` takes to be on: also what a component, or the base, draws in itself.
    """
    path = layout.kustomization(overlay)
    written = kustomization.components(files.read(path), files.package.shown(path))
    return {component.name: component.on for component in written} | dict.fromkeys(places(files, overlay), True)


def places(files: Files, overlay: str) -> dict[str, Position]:
    """Return the site options that are on, and where each is listed."""
    components = files.sources(overlay).components
    listed = [(posixpath.basename(folder), place) for folder, place in components]
    return {name: place for name, place in reversed(listed) if name in BY_NAME}


def option_problems(files: Files, overlay: str) -> Iterator[tuple[str, Problem]]:
    """Yield the options of the overlay that are on and would not work, and why."""
    places: dict[str, tuple[str, int]] = {}
    values: dict[str, dict[str, str]] = {}
    for path in (env(overlay), *site_files(files.package)):
        lines = list(envfile.lines(files.read(path)))
        values[path] = {line.key: line.value for line in lines}
        places |= {line.key: (path, line.number) for line in lines}
    site = next((path for path in values if path.endswith(layout.site_env(""))), env(overlay))
    on = [name for name, is_on in options(files, overlay).items() if is_on]
    for option, fault in faults(on, values[site], values[env(overlay)]):
        key = str(fault.location[-1])
        path, line = places.get(key) or (site, (envfile.commented_out(files.read(site), key) or 0) + 1)
        hint = f"--set {key}=VALUE" if key in KEYS else "--root PATH"
        yield option, Problem(files.package.shown(path), line, 1, fault.message, hint)

"""Package + Defaults -> Answers: what a site's defaults change in an overlay.

A default takes the place of what the package was built with. What a person has edited stays, and the options of the
command line count more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.configure import additions, settings
from packager.configure.assignments import Assignment
from packager.configure.changes import Answers
from packager.package import ids as patch_ids
from packager.package import kustomization, layout
from packager.package.opened import opened
from packager.package.options import BY_NAME, PLACEMENT
from packager.site.defaults import Labels, defaults

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from packager.configure.settings import Files
    from packager.package.opened import Package
    from packager.site.defaults import Defaults, SetValue
    from packager.site.read import SiteSettings

_KEYS = {"uid": "runAsUser", "gid": "runAsGroup", "fs_group": "fsGroup"}


def labels(package: Package) -> Labels:
    """Return the labels of a package, which the overrides of a site name."""
    spec = package.inventory.get("spec", {})
    frameworks = [path.split("/")[2] for path in settings.site_files(package)]
    return Labels(package.name, spec.get("name"), next(iter(frameworks), None), spec.get("precision"), spec.get("mode"))


@dataclass(frozen=True, slots=True)
class ShownSite:
    """The values that a site sets."""

    path: Path  # the site's file
    package: str | None  # the name of the package that it is shown for; None for every package
    entries: tuple[SetValue, ...]  # the values that are in effect
    overrides: int  # the number of overrides in the file that were not taken into account; 0 for a package

    def as_json(self) -> dict[str, Any]:
        """Return the values for `-o json`."""
        return {
            "file": str(self.path),
            "package": self.package,
            "values": [entry.as_json() for entry in self.entries],
            "overrides": self.overrides,
        }


def show(site: SiteSettings, package: Path | None) -> ShownSite:
    """Return the values that a site sets for a package, or for every package."""
    if package is None:
        return ShownSite(site.path, None, defaults(site, None).entries, len(site.config.overrides))
    with opened(package) as opened_package:
        return ShownSite(site.path, opened_package.name, defaults(site, labels(opened_package)).entries, 0)


def answers(files: Files, overlay: str, defaults: Defaults, given: Answers) -> Answers:
    """Return the answers that a site makes for an overlay: those that a person has neither edited nor given."""
    return _Filling(files, overlay, defaults, given).answers()


class _Filling:
    """Decides the answers of a site for one overlay."""

    def __init__(self, files: Files, overlay: str, defaults: Defaults, given: Answers) -> None:
        self._files = files
        self._overlay = overlay
        self._env = layout.env(overlay)
        self._defaults = defaults
        self._given = given
        self._now = settings.options(files, overlay)
        text = files.package.sealed(layout.kustomization(overlay)) or b""
        self._built = {component.name for component in kustomization.components(text) if component.on}
        self._assigned = {entry.key for entry in given.assignments}

    def answers(self) -> Answers:
        given, defaults = self._given, self._defaults
        storage = self._storage()
        on = self._options(storage)
        used = {*on, *storage, *self._switched_on()}
        return Answers(
            root=defaults.root if given.root is None and self._has_folders_as_built() else None,
            registry=defaults.registry if given.registry is None and self._is_as_built(self._env, "REGISTRY") else None,
            assignments=tuple(self._values(used)),
            switch_on=on,
            storage=storage,
            placement=self._placement() if PLACEMENT in used else None,
            annotations=defaults.annotations,
            **self._ids(),
        )

    def _switched_on(self) -> Iterator[str]:
        """Yield the options that the person switches on; what the site says of their keys holds for them, too."""
        yield from (name for name in (*self._given.switch_on, *self._given.storage) if name in BY_NAME)

    def _storage(self) -> tuple[str, ...]:
        """Return the options of storage; none if the person has chosen some."""
        edited = {name for name, is_on in self._now.items() if is_on != (name in self._built)}
        chosen = {*self._given.storage, *self._given.switch_on, *self._given.switch_off, *edited}
        if any(name in BY_NAME and BY_NAME[name].places for name in chosen):
            return ()
        return tuple(filter(self._is_available, self._defaults.storage or ()))

    def _options(self, storage: tuple[str, ...]) -> tuple[str, ...]:
        chosen = {*self._given.switch_on, *self._given.switch_off}
        needed = {name: BY_NAME[name].needs for name in self._defaults.options}
        return tuple(
            name
            for name in self._defaults.options
            if name not in chosen and self._now.get(name, False) == (name in self._built)
            if self._is_available(name) and (not needed[name] or set(needed[name]) & set(storage))
        )

    def _is_available(self, name: str) -> bool:
        """Whether the overlay lists an option, on or off, or it can be added."""
        return name in self._now or additions.can_add(self._files, self._overlay, name)

    def _values(self, used: set[str]) -> Iterator[Assignment]:
        keys = {key.name for name in used for key in BY_NAME[name].keys}
        paths = settings.site_files(self._files.package)
        new = [name for name in used if name not in self._now and self._is_available(name)]
        present = additions.keys(self._files, new) if new else set()
        present.update(key for path in paths for key in envfile.keys(self._files.read(path)))
        for key, value in self._defaults.values.items():
            if key in keys & present and all(self._is_as_built(path, key) for path in paths):
                yield Assignment("--site", key, value)

    def _ids(self) -> dict[str, Any]:
        paths = settings.patches(self._files, self._overlay)
        now: dict[str, Any] = {}
        built: dict[str, Any] = {}
        for path in paths:
            now = patch_ids.read(self._files.read(path), path) | now
            built = patch_ids.read(self._files.package.sealed(path) or b"", path) | built
        return {
            name: value
            for name, value in self._defaults.ids.items()
            if getattr(self._given, name) is None and _KEYS[name] in now and now[_KEYS[name]] == built.get(_KEYS[name])
        }

    def _placement(self) -> Mapping[str, Any] | None:
        """Return the fields of placement/placement.yaml; None if a person has edited it."""
        path = settings.placement_file(self._files)
        is_as_built = path is None or self._files.read(path) == self._files.package.sealed(path)
        return self._defaults.placement if is_as_built and self._defaults.placement else None

    def _has_folders_as_built(self) -> bool:
        model_dir = settings.value(self._files, self._overlay, "MODEL_DIR") or ""
        return model_dir.endswith(f"/{self._files.package.name}") and self._is_as_built(self._env, "MODEL_DIR")

    def _is_as_built(self, path: str, key: str) -> bool:
        """Whether a file has the value that it was built with, and the command line sets no other one."""
        if key in self._assigned:
            return False
        now, built = self._files.read(path), self._files.package.sealed(path) or b""
        return _value(now, key) == _value(built, key)


def _value(text: bytes, key: str) -> str | None:
    return next((line.value for line in envfile.lines(text) if line.key == key), None)

"""An overlay as it is written: every kustomization that it draws in, read without kustomize.

This finds what kustomize says badly or not at all, with its line; it sees that nothing from outside the package is
drawn in, before any kubectl is asked to; and it collects where everything is written (`packager.verify.origins`).
"""

from __future__ import annotations

import posixpath
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packager import envfile, yamlio
from packager.contents import shown
from packager.problems import Problem, similar
from packager.verify.entries import Entries
from packager.verify.origins import Generated, Operations, Place, Replaced, Written
from packager.verify.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.package import Package
    from packager.yamlio import Document, Location

_NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")

# kustomize, api/types/kustomization.go: what kubectl 1.22 knows already.
_FIELDS = frozenset(
    """
    apiVersion kind metadata openapi namePrefix nameSuffix namespace labels commonAnnotations patches images
    replacements replicas resources components crds configMapGenerator secretGenerator generatorOptions
    configurations generators transformers validators buildMetadata
    """.split()  # noqa: SIM905 - a column of quoted words reads worse
)
_DEPRECATED = {
    "bases": "list them under `resources`",
    "commonLabels": "use `labels`",
    "imageTags": "use `images`",
    "patchesJson6902": "use `patches`",
    "patchesStrategicMerge": "use `patches`",
    "vars": "use `replacements`",
}
_PLUGINS = ("helmCharts", "helmChartInflationGenerator", "helmGlobals")
_DEPTH = 20
_GENERATORS = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}


def read(package: Package, folder: str) -> Sources:
    """Return what the overlay in `folder`, below the package's root, is made of."""
    sources = Sources(package.folder, package.shown, f"{folder}/{_NAMES[0]}")
    _read(sources, folder, None, ())
    return sources


def _read(sources: Sources, folder: str, listed: Problem | None, above: tuple[str, ...]) -> None:
    """Read the kustomization in `folder`, which `listed` (a place, with no message yet) draws in."""
    name = next((name for name in _NAMES if sources.path(f"{folder}/{name}").is_file()), None)
    if name is None or folder in above or len(above) > _DEPTH:
        what = "has no kustomization.yaml" if name is None else "draws itself in again"
        place = listed or Problem(*sources.start, "")
        sources.refuse(replace(place, message=f"the folder {shown(folder)} {what}"))
        return
    documents = sources.documents(f"{folder}/{name}")
    if len(documents) == 1 and isinstance(documents[0].data, dict):
        sources.kustomizations.append(documents[0])
        _Kustomization(sources, folder, documents[0], above).read()
    elif documents or not sources.broken:
        sources.refuse(Problem(sources.shown(f"{folder}/{name}"), 1, 1, "expected one mapping"))


class _Kustomization(Entries):
    """One kustomization: goes through its fields in the order in which kustomize applies them."""

    def __init__(self, sources: Sources, folder: str, document: Document, above: tuple[str, ...]) -> None:
        super().__init__(sources, folder, document)
        self._above = (*above, folder)

    def read(self) -> None:
        self._fields()
        for key in ("resources", "bases", "generators", "transformers", "validators", "components"):
            for location, entry in self.entries(key):
                self._draw_in(entry, location, component=key == "components")
            if key == "bases":
                self._generators()
        self._patches()
        for key in ("crds", "configurations"):
            for location, entry in self.entries(key):
                self.file(entry, location)
        self._replacements()

    def _fields(self) -> None:
        for key in self.document.data:
            if key in _DEPRECATED:
                self.find((key,), f"{key} is deprecated, and later versions of kustomize drop it", _DEPRECATED[key])
            elif key in _PLUGINS:
                self.refuse((key,), f"{key} needs more than kubectl", at_key=True)
            elif key not in _FIELDS:
                self.refuse((key,), f"there is no field {key!r} here", similar(key, _FIELDS), at_key=True)

    def _draw_in(self, entry: Any, location: Location, *, component: bool) -> None:
        """Go into a folder, or read a file of manifests."""
        path = self.inside(entry, location)
        if path is None:
            return
        place = self.document.problem(location, "")
        if self.sources.path(path).is_dir():
            if component:
                self.sources.components.append((path, Place(place.file, place.line, place.column)))
            _read(self.sources, path, place, self._above)
            return
        for document in self.sources.documents(path):
            if isinstance(document.data, dict):
                self._written(document)
            elif document.data is not None:
                self.sources.refuse(document.problem((), "expected a manifest"))

    def _generators(self) -> None:
        for key, kind in _GENERATORS.items():
            for location, generator in self.entries(key):
                if not isinstance(generator, dict) or not isinstance(generator.get("name"), str):
                    self.refuse(location, "expected a name, and what to generate from")
                    continue
                place = self.place((*location, "name"))
                keys = dict(self._generated(generator, location))
                self.sources.origins.append(Generated(kind, generator["name"], place, keys))

    def _generated(self, generator: dict[str, Any], above: Location) -> Iterator[tuple[str, Place]]:
        for location, entry in self.entries("files", above):
            key, equals, path = str(entry).partition("=")
            if self.file(path if equals else entry, location):
                yield posixpath.basename(key), self.place(location)
        for location, entry in self.entries("literals", above):
            yield str(entry).partition("=")[0], self.place(location)
        if generator.get("env") is not None:
            self.find((*above, "env"), "env is deprecated, and later versions of kustomize drop it", "use `envs`")
            yield from self._env(generator["env"], (*above, "env"))
        for location, entry in self.entries("envs", above):
            yield from self._env(entry, location)

    def _env(self, entry: Any, location: Location) -> Iterator[tuple[str, Place]]:
        path = self.file(entry, location)
        if path is None:
            return
        text = self.sources.path(path).read_bytes()
        name = self.sources.shown(path)
        for complaint in envfile.complaints(text):
            problem = Problem(name, complaint.line, complaint.column, complaint.message, complaint.hint)
            self.sources.problems.append(problem)
            self.sources.broken |= complaint.fatal
        for line in envfile.lines(text):
            yield line.key, Place(name, line.number, 1)

    def _patches(self) -> None:
        for location, entry in self.entries("patches"):
            if not isinstance(entry, dict):
                self.refuse(location, "expected a mapping with `path` or `patch`")
            elif entry.get("path") is not None:
                self._patch_file(entry["path"], (*location, "path"), entry.get("target"))
            elif isinstance(entry.get("patch"), str):
                self._patch(*self._inline((*location, "patch")), entry.get("target"))
        for location, entry in self.entries("patchesStrategicMerge"):
            if isinstance(entry, str) and "\n" not in entry:
                self._patch_file(entry, location, None)
        for location, entry in self.entries("patchesJson6902"):
            if isinstance(entry, dict) and entry.get("path") is not None:
                self._patch_file(entry["path"], (*location, "path"), entry.get("target"))

    def _patch_file(self, entry: Any, location: Location, target: Any) -> None:
        path = self.file(entry, location)
        if path is not None:
            self._patch(self.sources.documents(path), [], target)

    def _patch(self, documents: list[Document], problems: list[Problem], target: Any) -> None:
        for problem in problems:
            self.sources.refuse(problem)
        for document in documents:
            if isinstance(document.data, list):
                kind = str(target.get("kind") or "") if isinstance(target, dict) else ""
                self.sources.origins.append(Operations(kind, "", document))
            elif isinstance(document.data, dict):
                if target is None:
                    self._aims(document)
                self._written(document, target, is_patch=True)

    def _aims(self, document: Document) -> None:
        """See that a patch without a target has something to patch."""
        kind, name = _identity(document)
        named = [
            origin.name
            for origin in self.sources.origins
            if isinstance(origin, Written) and not origin.is_patch and origin.kind == kind
        ]
        generated = [o.name for o in self.sources.origins if isinstance(o, Generated) and o.kind == kind]
        if name not in named and name not in generated:
            message = f"the patch is for the {kind or 'manifest'} {name!r}, and there is none"
            there = similar(name, named + generated) or f"those are: {', '.join(named + generated) or 'none'}"
            self.sources.refuse(document.problem(("metadata", "name"), message, hint=there))

    def _inline(self, location: Location) -> tuple[list[Document], list[Problem]]:
        """Read a patch that stands in the kustomization itself, with the lines that it has there.

        The content of a block scalar (`|`) begins in the line below its mark. Columns are those of six blanks, which is
        where our own lists put it.
        """
        value: Any = self.document.data
        for step in location:
            value = value[step]
        line = self.document.problem(location, "").line
        text = "\n" * line + textwrap.indent(value, " " * 6)
        return yamlio.load_all(text.encode(), self.document.name)

    def _replacements(self) -> None:
        for location, entry in self.entries("replacements"):
            if isinstance(entry, dict) and entry.get("path") is not None:
                self.file(entry["path"], (*location, "path"))
            elif isinstance(entry, dict) and isinstance(entry.get("source"), dict):
                for target, place in self._replaced(entry["source"], entry.get("targets")):
                    self.sources.origins.extend(_fields_of(target, place))

    def _replaced(self, source: dict[str, Any], targets: Any) -> Iterator[tuple[dict[str, Any], Place]]:
        """Yield each target whose value is a line of an env file, and the place of that line."""
        key = str(source.get("fieldPath", "")).removeprefix("data.")
        for origin in self.sources.origins:
            if isinstance(origin, Generated) and origin.name == source.get("name") and key in origin.keys:
                for target in targets if isinstance(targets, list) else ():
                    if isinstance(target, dict) and isinstance(target.get("select"), dict):
                        yield target, origin.keys[key]

    def _written(self, document: Document, target: Any = None, *, is_patch: bool = False) -> None:
        kind, name = _identity(document)
        if isinstance(target, dict):  # which decides, whatever the patch calls itself
            kind, name = str(target.get("kind") or ""), ""
        self.sources.origins.append(Written(kind, name, document, is_patch))


def _fields_of(target: dict[str, Any], place: Place) -> Iterator[Replaced]:
    """Yield what a replacement fills whole, or up to its last part: an image's own file says its name and tag."""
    select, paths = target["select"], target.get("fieldPaths")
    for path in paths if isinstance(paths, list) else ():
        if isinstance(path, str) and not path.endswith(".image"):
            yield Replaced(str(select.get("kind") or ""), str(select.get("name") or ""), path, place)


def _identity(document: Document) -> tuple[str, str]:
    metadata = document.data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return str(document.data.get("kind") or ""), str(name or "")

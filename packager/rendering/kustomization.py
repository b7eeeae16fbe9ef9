"""Reads all kustomizations of an overlay as written, without kustomize.

This module finds problems that kustomize reports without a line or not at all. It checks that nothing from outside the
package is included, before kubectl renders anything, and collects the places where the parts of manifests are written
(`packager.rendering.origins`).

Tests: verify/test_messages.py.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.problems import Problem, show, similar
from packager.base.values import replace
from packager.kubernetes import resources
from packager.package import declared
from packager.package.layout import KUSTOMIZATIONS
from packager.package.options import KEYS
from packager.package.path_checks import shown
from packager.rendering import fields, images
from packager.rendering.entries import Entries
from packager.rendering.origins import Generated, Operations, Position, Renamed, Replaced, Written, selected, split
from packager.rendering.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.base.yamlio import Document, Location
    from packager.package.opened import Package

_DEPTH = 20
_DIGITS = 10
_WHOLE_NUMBER = rf"0|[1-9][0-9]{{0,{_DIGITS - 1}}}"
"""The form of a number that every reader of YAML takes for the same one; the largest of Kubernetes has ten digits."""

_QUANTITIES = (["resources", "requests"], ["resources", "limits"])
"""The last steps before the name of a resource in the path of its quantity."""

_LABELS = ["metadata", "labels"]
_ANNOTATIONS = ["metadata", "annotations"]
_NO_LABELS = ("spec", "data")
"""The fields of objects that contain no labels of theirs."""

_LITERAL = "[A-Za-z0-9-]+"
"""A kind or a name that kustomize, which reads a regular expression, finds only in itself."""

_LABEL_KEY = "[A-Za-z0-9./_-]+"
"""The key of a label, as a path of kustomize names it."""

_REQUIREMENT = re.compile(r"\s*(?P<label>[^\s=!]+)\s*(?P<operator>==?|!=)\s*(?P<value>[^\s=!]*)\s*")
"""A requirement of a labelSelector that compares a label with a value (apimachinery, labels.Parse)."""

_GENERATORS = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}


def read(package: Package, folder: str, earlier: Sources | None = None) -> Sources:
    """Return the sources of the overlay in `folder`, below the package's root.

    Args:
        package: The package.
        folder: The folder.
        earlier: Sources of the same package; what they have parsed is not parsed again.
    """
    sources = Sources(package.reader, f"{folder}/{KUSTOMIZATIONS[0]}", declared.read(package), earlier)
    _read(sources, folder, None, ())
    return sources


def _read(
    sources: Sources, folder: str, included_at: Problem | None, above: tuple[str, ...], *, transforming: bool = False
) -> None:
    """Read the kustomization in `folder`, which is included at `included_at` (a place, with no message yet)."""
    names = [name for name in KUSTOMIZATIONS if sources.exists(f"{folder}/{name}")]
    if len(names) != 1 or folder in above or len(above) > _DEPTH:
        what = "includes itself" if names else "has no kustomization.yaml"
        what = f"has {' and '.join(names)}: kubectl accepts only one of them" if len(names) > 1 else what
        place = included_at or Problem(*sources.start, "")
        sources.refuse(replace(place, message=f"the folder {shown(folder)} {what}"))
        return
    path = f"{folder}/{names[0]}"
    refused = len(sources.refused)
    documents = sources.documents(path)
    if len(documents) == 1 and isinstance(documents[0].data, dict) and not documents[0].is_flow:
        for problem in yamlio.indirections(sources.files[path], sources.shown(path)):
            sources.refuse(problem)
        sources.kustomizations.append(documents[0])
        _Kustomization(sources, folder, documents[0], above, transforming=transforming).read()
    elif len(sources.refused) == refused:
        message = "expected one mapping, with one key per line"
        sources.refuse(Problem(sources.shown(path), 1, 1, message))


class _Kustomization(Entries):
    """Reads one kustomization, field by field in the order in which kustomize applies them."""

    def __init__(
        self, sources: Sources, folder: str, document: Document, above: tuple[str, ...], *, transforming: bool
    ) -> None:
        super().__init__(sources, folder, document)
        self._above = (*above, folder)
        self._transforming = transforming
        self._entries_before = len(sources.image_entries)
        self._has_image = False
        self._filled_labels: dict[tuple[str, str, str], str] = {}

    def read(self) -> None:
        self._keys()
        for location, entry in self.entries("resources"):
            self._include(entry, location, component=False)
        self._generators()
        for location, entry in self.entries("components"):
            self._include(entry, location, component=True)
        for location, entry in self.entries("transformers"):
            self._transformers(entry, location)
        self._patches()
        self._images()
        for key in ("crds", "configurations"):
            for location, entry in self.entries(key):
                self.file(entry, location)
        self._replacements()

    def _keys(self) -> None:
        allowed = fields.TRANSFORMING if self._transforming else fields.KUSTOMIZATION
        self._refuse(fields.check(self.document, allowed))
        if self._transforming:
            self._refuse(fields.check_transforming(self.document))

    def _refuse(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.sources.refuse(problem)

    def _include(self, entry: Any, location: Location, *, component: bool) -> None:
        """Read the kustomization of a folder, or a file of manifests."""
        path = self.resolved(entry, location)
        if path is None:
            return
        place = self.document.problem(location, "")
        if self.sources.is_folder(path):
            if component:
                self.sources.components.append((path, Position(place.file, place.line, place.column)))
            _read(self.sources, path, place, self._above, transforming=self._transforming)
            return
        for document in self.sources.documents(path):
            if isinstance(document.data, dict):
                self._add_written(document)
            elif document.data is not None:
                self.sources.refuse(document.problem((), "expected a manifest"))
            if self._transforming:
                self._refuse(fields.check_transformer(document, self.sources.files[path]))

    def _transformers(self, entry: Any, location: Location) -> None:
        """Read the kustomization of a folder whose manifests transform those of this one."""
        path = self.resolved(entry, location)
        if path is None:
            return
        if self.sources.is_folder(path):
            _read(self.sources, path, self.document.problem(location, ""), self._above, transforming=True)
        else:
            self.refuse(location, "expected a folder of PatchTransformers: a package has no other transformers")

    def _generators(self) -> None:
        for key, kind in _GENERATORS.items():
            for location, generator in self.entries(key):
                if not isinstance(generator, dict) or not isinstance(generator.get("name"), str):
                    self.refuse(location, "expected a name, and what to generate from")
                    continue
                place = self.position((*location, "name"))
                generated = list(self._generated(location))
                keys = {key: position for key, position, _ in generated}
                values = {key: value for key, _, value in generated if value is not None}
                self.sources.origins.append(Generated(kind, generator["name"], place, keys, values))

    def _generated(self, above: Location) -> Iterator[tuple[str, Position, str | None]]:
        """Yield each key, its position, and its value if that is no file."""
        for location, entry in self.entries("files", above):
            key, equals, path = str(entry).partition("=")
            if self.file(path if equals else entry, location):
                yield posixpath.basename(key), self.position(location), None
        for location, entry in self.entries("literals", above):
            key, _, value = str(entry).partition("=")
            yield key, self.position(location), value
        for location, entry in self.entries("envs", above):
            yield from self._env(entry, location)

    def _env(self, entry: Any, location: Location) -> Iterator[tuple[str, Position, str]]:
        path = self.file(entry, location)
        if path is None:
            return
        env_file = self.sources.env_file(path)
        for is_doubt, problem in env_file.problems:
            (self.sources.notes if is_doubt else self.sources.problems).append(problem)
        yield from ((key, position, env_file.values[key]) for key, position in env_file.keys.items())

    def _patches(self) -> None:
        for location, entry in self.entries("patches"):
            if not isinstance(entry, dict):
                self.refuse(location, "expected a mapping with `path` or `patch`")
            elif entry.get("path") is not None:
                self._patch_file(entry["path"], (*location, "path"), entry.get("target"))
            elif isinstance(entry.get("patch"), str):
                self._patch(*self._inline((*location, "patch")), entry.get("target"))

    def _images(self) -> None:
        """Note where images get their names, tags and digests; the registry is left to a replacement."""
        for location, entry in self.entries("images"):
            name = str((entry.get("newName") or entry.get("name")) if isinstance(entry, dict) else "")
            if name:
                replaced = str(entry.get("name") or "")
                self.sources.image_entries.append(images.ImagesEntry(replaced, self.document, location))
                self.sources.origins.append(Renamed(name.partition("/")[2] or name, self.position(location)))

    def _patch_file(self, entry: Any, location: Location, target: Any) -> None:
        path = self.file(entry, location)
        if path is not None:
            self._patch(self.sources.documents(path), [], target)

    def _patch(self, documents: list[Document], problems: list[Problem], target: Any) -> None:
        self._refuse(problems)
        for document in documents:
            if isinstance(document.data, list):
                kind = str(target.get("kind") or "") if isinstance(target, dict) else ""
                self.sources.origins.append(Operations(kind, "", document))
            elif isinstance(document.data, dict):
                if target is None:
                    self._check_patch_target(document)
                self._add_written(document, target, is_patch=True)

    def _check_patch_target(self, document: Document) -> None:
        """Check that the manifest exists that a patch without a target names."""
        kind, name = _identity(document)
        named = [
            origin.name
            for origin in self.sources.origins
            if isinstance(origin, Written) and not origin.is_patch and origin.kind == kind
        ]
        generated = [o.name for o in self.sources.origins if isinstance(o, Generated) and o.kind == kind]
        if name not in named and name not in generated:
            message = f"the patch is for the {kind or 'manifest'} {name!r}, which does not exist"
            hint = similar(name, named + generated) or f"the overlay has: {', '.join(named + generated) or 'none'}"
            self.sources.refuse(document.problem(("metadata", "name"), message, hint=hint))

    def _inline(self, location: Location) -> tuple[list[Document], list[Problem]]:
        """Read an inline patch of a kustomization, with its line numbers in the kustomization.

        The content of a block scalar (`|`) begins in the line below its mark. Columns are counted for an indentation of
        six blanks, that of our own lists.
        """
        value: Any = self.document.data
        for step in location:
            value = value[step]
        line = self.document.problem(location, "").line
        text = "\n" * line + textwrap.indent(value, " " * 6)
        documents, problems = yamlio.load_all(text.encode(), self.document.name)
        self.sources.count(len(documents))
        return documents, problems

    def _replacements(self) -> None:
        for location, entry in self.entries("replacements"):
            if isinstance(entry, dict) and entry.get("path") is not None:
                self._replacement_file(entry["path"], (*location, "path"))
            else:
                self._replacement(entry)
        if self._has_image:
            entries = self.sources.image_entries[self._entries_before :]
            self.sources.problems.extend(images.idle(entries, self.sources.origins))

    def _replacement_file(self, entry: Any, location: Location) -> None:
        """Read a file of replacements, which holds a list of them or one."""
        path = self.file(entry, location)
        if path is None:
            return
        self._refuse(yamlio.indirections(self.sources.files[path], self.sources.shown(path)))
        for document in self.sources.documents(path):
            self.sources.kustomizations.append(document)
            listed = isinstance(document.data, list)
            self._refuse(fields.check(document, replace(fields.REPLACEMENTS, listed=listed)))
            for replacement in document.data if listed else [document.data]:
                self._replacement(replacement)

    def _replacement(self, entry: Any) -> None:
        if not isinstance(entry, dict) or not isinstance(entry.get("source"), dict):
            return
        key, origin = self._replacement_source(entry["source"])
        targets = entry.get("targets")
        for target in targets if isinstance(targets, list) else ():
            if isinstance(target, dict) and isinstance(target.get("select"), dict):
                value = origin.values.get(key) if origin and not entry["source"].get("options") else None
                fills_label = self._labels(target, value)
                if origin is None:
                    continue
                if fills_label:
                    self.sources.numbers.add(key)
                if not self._applies(target["select"]):
                    continue
                self._numbers(target, key, origin)
                self._quantities(target, key, origin)
                if images.is_name(target):
                    self._has_image = True
                    self.sources.image_keys.add(key)
                    self._refuse(images.check(target, key, origin, self.sources.origins))
                    self.sources.notes.extend(images.doubts(key, origin))
                self.sources.origins.extend(_fields_of(target, origin.keys[key]))

    def _labels(self, target: dict[str, Any], value: str | None) -> bool:
        """Note the labels that a value fills in completely, by which later targets of the same object are selected.

        After a target that may change labels in another way, no label is certain: all later targets may apply.

        Returns:
            Whether it fills in labels.
        """
        paths, select = target.get("fieldPaths"), target["select"]
        is_exact = (
            target.keys() == {"select", "fieldPaths"}
            and select.keys() == {"kind", "name"}
            and all(re.fullmatch(_LITERAL, str(name)) for name in select.values())
        )
        fills = False
        for steps in (split(str(path)) for path in (paths if isinstance(paths, list) else ())):
            is_label = steps[:-1] == _LABELS and re.fullmatch(_LABEL_KEY, steps[-1]) is not None
            fills |= is_label
            if is_exact and is_label and value is not None:
                self._filled_labels[str(select["kind"]), str(select["name"]), steps[-1]] = value
            elif steps[0] not in _NO_LABELS and steps[:2] != _ANNOTATIONS:
                self._filled_labels.clear()
        return fills

    def _applies(self, select: dict[str, Any]) -> bool:
        """Return whether a target may be selected, by the labels that were filled in."""
        return all((label == value) != is_refused for label, is_refused, value in self._requirements(select))

    def _requirements(self, select: dict[str, Any]) -> Iterator[tuple[str, bool, str]]:
        """Yield each filled label of a selector, whether it must have another value, and this value."""
        for requirement in str(select.get("labelSelector") or "").split(","):
            match = _REQUIREMENT.fullmatch(requirement)
            name = (str(select.get("kind")), str(select.get("name")), match["label"] if match else "")
            label = self._filled_labels.get(name)
            if match and label is not None:
                yield label, match["operator"] == "!=", match["value"]

    def _numbers(self, target: dict[str, Any], key: str, origin: Generated) -> None:
        """Refuse a value that is no plain number for a field which takes a whole number.

        kustomize puts any text there; kubectl then fails without a place, or reads `0x4` and `04` as 4.
        """
        if not any(isinstance(value, int) and not isinstance(value, bool) for value in self._filled(target)):
            return
        self.sources.numbers.add(key)
        value = origin.values.get(key, "")
        if key not in KEYS and not re.fullmatch(_WHOLE_NUMBER, value):  # verify checks the options' values itself
            others = [f" or {word!r}" for _, is_refused, word in self._requirements(target["select"]) if is_refused]
            expected = f"a whole number of at most {_DIGITS} digits{''.join(others)}"
            message = f"{key}: expected {expected}, found {show(value)}"
            self._refuse([Problem(*origin.keys[key], message)])

    def _quantities(self, target: dict[str, Any], key: str, origin: Generated) -> None:
        """Refuse a value that is no quantity for a field of a container's resources: the cluster would refuse it."""
        paths = target.get("fieldPaths")
        steps = [split(str(path)) for path in paths] if isinstance(paths, list) and not target.get("options") else []
        names = dict.fromkeys(path[-1] for path in steps if path[-3:-1] in _QUANTITIES and path[-4:-3] != ["spec"])
        value = origin.values.get(key, "")
        for name in names:
            self.sources.quantities.add(key)
            if message := resources.complaint(name, value):
                self._refuse([Problem(*origin.keys[key], f"{key}: {message}")])

    def _filled(self, target: dict[str, Any]) -> Iterator[Any]:
        """Yield the values, as they are written, of the fields that a replacement fills completely."""
        select, paths = target["select"], target.get("fieldPaths")
        if target.get("options") or not isinstance(paths, list):
            return
        for origin in self.sources.origins:
            if isinstance(origin, Written) and (origin.kind, origin.name) == (select.get("kind"), select.get("name")):
                for path in paths:
                    yield from (value for _, value in selected(str(path), origin.document.data))

    def _replacement_source(self, source: dict[str, Any]) -> tuple[str, Generated | None]:
        """Return the key that fills a target, and what was generated with it; None if nothing was."""
        key = str(source.get("fieldPath", "")).removeprefix("data.")
        named = (
            origin
            for origin in self.sources.origins
            if isinstance(origin, Generated) and origin.name == source.get("name") and key in origin.keys
        )
        return key, next(named, None)

    def _add_written(self, document: Document, target: Any = None, *, is_patch: bool = False) -> None:
        kind, name = _identity(document)
        if isinstance(target, dict):  # the target decides, not the kind and name in the patch
            kind, name = str(target.get("kind") or ""), ""
        self.sources.origins.append(Written(kind, name, document, is_patch))


def _fields_of(target: dict[str, Any], place: Position) -> Iterator[Replaced]:
    """Yield the fields that a replacement fills, except images of which it fills in the registry alone."""
    select, paths = target["select"], target.get("fieldPaths")
    for path in paths if isinstance(paths, list) else ():
        if isinstance(path, str) and (not path.endswith(".image") or images.is_name(target)):
            yield Replaced(str(select.get("kind") or ""), str(select.get("name") or ""), path, place)


def _identity(document: Document) -> tuple[str, str]:
    metadata = document.data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return str(document.data.get("kind") or ""), str(name or "")

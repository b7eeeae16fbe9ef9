"""Reads all kustomizations of an overlay as written, without kustomize.

This module checks that nothing from outside the package is included, before kubectl renders anything, finds values of
mlops.env that kustomize would accept without a place or not at all, and collects the places where the parts of
manifests are written (`packager.rendering.origins`). Tests: verify/test_messages.py.
"""

from __future__ import annotations

import posixpath
import re
import textwrap
from typing import TYPE_CHECKING, Any

from packager.base import yamlio
from packager.base.names import split_registry
from packager.base.problems import Problem, show, similar
from packager.base.values import replace
from packager.kubernetes.containers import quantity_complaint
from packager.kubernetes.manifest import Manifest, integer, listing, mapping
from packager.package import declared, image
from packager.package.layout import KUSTOMIZATIONS
from packager.package.options import KEYS
from packager.package.path_checks import shown
from packager.rendering import fields
from packager.rendering.origins import Generated, Operations, Replaced, Written, position, selected, split
from packager.rendering.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.yamlio import Document, Location
    from packager.package.opened import Package

_DEPTH = 20
_DIGITS = 10
_WHOLE_NUMBER = rf"0|[1-9][0-9]{{0,{_DIGITS - 1}}}"
"""The form of a number that every reader of YAML takes for the same one; the largest of Kubernetes has ten digits."""

_QUANTITIES = (["resources", "requests"], ["resources", "limits"])
"""The last steps before the name of a resource in the path of its quantity."""

_GENERATED = {"configMapGenerator": "ConfigMap", "secretGenerator": "Secret"}

IMAGE_HINT = "mlpack configure --image NAME:TAG, or edit IMAGE in mlops.env"

_REQUIREMENT = re.compile(r"\s*(?P<label>[^\s=!]+)\s*(?P<operator>==?|!=)\s*(?P<value>[^\s=!]*)\s*")
"""A requirement of a labelSelector that compares a label with a value (apimachinery, labels.Parse)."""

# Entries that kustomize reads as addresses even if a file or folder of this name exists: for files, those with a
# scheme (api/internal/loader, `IsRemoteFile`); for folders, also those with `user@`, GitHub and Azure's `_git/` without
# a scheme (api/internal/git, `NewRepoSpecFromURL`).
_REMOTE_FILE = re.compile(r"[:?]")
_REMOTE_FOLDER = re.compile(r"[:?]|^[^/]*@|^github\.com/|_git/", re.IGNORECASE)

# Each part is a name: not empty, and without characters that Go's net/url, a shell or a terminal interprets.
_PLAIN = re.compile(r"[\w.+@,-][\w.+@, -]*(/[\w.+@,-][\w.+@, -]*)*/?")


def read(package: Package, folder: str, earlier: Sources | None = None) -> Sources:
    """Return the sources of the overlay in `folder`, below the package's root.

    Args:
        package: The package.
        folder: The folder.
        earlier: Sources of the same package; what they have parsed is not parsed again.
    """
    sources = Sources(package.reader, f"{folder}/{KUSTOMIZATIONS[0]}", declared.read(package), earlier)
    _read(sources, folder, Problem(*sources.start, ""), ())
    return sources


def _read(
    sources: Sources, folder: str, included_at: Problem, above: tuple[str, ...], *, transforming: bool = False
) -> None:
    """Read the kustomization in `folder`, which is included at `included_at` (a place, with no message yet)."""
    names = [name for name in KUSTOMIZATIONS if sources.is_file(f"{folder}/{name}")]
    if len(names) != 1 or folder in above or len(above) > _DEPTH:
        what = "includes itself" if names else "has no kustomization.yaml"
        what = f"has {' and '.join(names)}: kubectl accepts only one of them" if len(names) > 1 else what
        sources.refuse(replace(included_at, message=f"the folder {shown(folder)} {what}"))
        return
    path = f"{folder}/{names[0]}"
    refused = len(sources.refused)
    documents = sources.documents(path)
    if len(documents) == 1 and isinstance(documents[0].data, dict) and not documents[0].is_flow:
        sources.refuse(*yamlio.indirections(sources.files[path], sources.shown(path)))
        _Kustomization(sources, folder, documents[0], (*above, folder), transforming=transforming).read()
    elif len(sources.refused) == refused:
        message = "expected one mapping, with one key per line"
        sources.refuse(Problem(sources.shown(path), 1, 1, message))


class _Kustomization:
    """Reads one kustomization, field by field in the order in which kustomize applies them."""

    def __init__(
        self, sources: Sources, folder: str, document: Document, above: tuple[str, ...], *, transforming: bool
    ) -> None:
        self._sources = sources  # of the overlay that includes the kustomization
        self._folder = folder  # below the package's root
        self._document = document
        self._above = above  # the folders that include it, and its own
        self._transforming = transforming  # whether its manifests transform those of another
        self._labels: dict[str, str] = {}  # the labels that values fill in, by which later targets are selected

    def read(self) -> None:
        known = fields.TRANSFORMING if self._transforming else fields.KUSTOMIZATION
        self._sources.refuse(*fields.check(self._document, known))
        if self._transforming:
            self._sources.refuse(*fields.check_transforming(self._document))
        for key, take in {
            "resources": self._include,
            "configMapGenerator": self._generate,
            "secretGenerator": self._generate,
            "components": self._include,
            "transformers": self._include,
            "patches": self._patch,
            "images": self._rename,
            "crds": self._only_read,
            "configurations": self._only_read,
            "replacements": self._replace,
        }.items():
            for location, entry in self._entries(key):
                take(key, entry, location)

    def _entries(self, key: str, above: Location = ()) -> Iterator[tuple[Location, Any]]:
        """Yield each entry of the list at `key` and its location; note a finding if the value is not a list."""
        holder: Any = self._document.data
        for step in above:
            holder = holder[step]
        value = holder.get(key)
        if isinstance(value, list):
            for index, entry in enumerate(value):
                yield (*above, key, index), entry
        elif value is not None:
            self._refuse((*above, key), "expected a list")

    def _path(self, entry: Any, location: Location, remote: re.Pattern[str] = _REMOTE_FOLDER) -> str | None:
        """Return the path of the file or folder that `entry` names; None, with a finding, if the package has none.

        Args:
            entry: A path, from the kustomization's folder.
            location: The location of the entry.
            remote: The pattern of entries that kustomize reads as addresses.
        """
        if not isinstance(entry, str) or not entry:
            self._refuse(location, "expected a path")
            return None
        path = posixpath.normpath(posixpath.join(self._folder, entry))
        if remote.search(entry):
            self._refuse(location, f"{shown(entry)} is fetched from elsewhere, but a package must contain all it needs")
        elif path.startswith(("/", "..")):
            self._refuse(location, f"{shown(entry)} leads out of the package")
        elif not self._sources.is_file(path) and not self._sources.is_folder(path):  # links are not followed
            self._refuse(location, f"there is no {shown(entry)}")
        elif not _PLAIN.fullmatch(entry):
            hint = "between '/' expected letters, digits, blanks and '._-+@,'"
            self._refuse(location, f"{shown(entry)} is not a plain path", hint)
        else:
            return path
        return None

    def _file(self, entry: Any, location: Location) -> str | None:
        """Return the path of a file below the kustomization's folder; None, with a finding, if there is none."""
        path = self._path(entry, location, _REMOTE_FILE)
        if path is None:
            return None
        if not path.startswith(f"{self._folder}/"):
            self._refuse(location, "kustomize reads no files outside the kustomization's folder")
        elif self._sources.is_folder(path):
            self._refuse(location, f"{shown(entry)} is a folder")
        elif self._sources.read(path) is not None:
            return path
        return None

    def _refuse(self, location: Location, message: str, hint: str | None = None) -> None:
        self._sources.refuse(self._document.problem(location, message, hint=hint))

    def _only_read(self, _: str, entry: Any, location: Location) -> None:
        self._file(entry, location)

    def _include(self, key: str, entry: Any, location: Location) -> None:
        """Read the kustomization of a folder, or a file of manifests."""
        path = self._path(entry, location)
        if path is None:
            return
        if self._sources.is_folder(path):
            if key == "components":
                self._sources.components.append((path, position(self._document, location)))
            transforming = self._transforming or key == "transformers"
            _read(self._sources, path, self._document.problem(location, ""), self._above, transforming=transforming)
        elif key == "transformers":
            self._refuse(location, "expected a folder of PatchTransformers: a package has no other transformers")
        else:
            for document in self._sources.documents(path):
                if isinstance(document.data, dict):
                    manifest = Manifest(document.data)
                    self._sources.origins.append(Written(manifest.kind, manifest.name, document))
                elif document.data is not None:
                    self._sources.refuse(document.problem((), "expected a manifest"))
                if self._transforming:
                    self._sources.refuse(*fields.check_transformer(document, self._sources.files[path]))

    def _generate(self, generator: str, entry: Any, location: Location) -> None:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            self._refuse(location, "expected a name, and what to generate from")
            return
        origin = Generated(_GENERATED[generator], entry["name"], position(self._document, (*location, "name")))
        for here, item in self._entries("files", location):
            key, equals, path = str(item).partition("=")
            if self._file(path if equals else item, here):
                origin.keys[posixpath.basename(key)] = position(self._document, here)
        for here, item in self._entries("literals", location):
            key, _, value = str(item).partition("=")
            origin.keys[key], origin.values[key] = position(self._document, here), value
        for here, item in self._entries("envs", location):
            if (file := self._file(item, here)) is not None:
                env_file = self._sources.env_file(file)
                origin.keys.update(env_file.keys)
                origin.values.update(env_file.values)
        self._sources.origins.append(origin)

    def _patch(self, _: str, entry: Any, location: Location) -> None:
        documents: list[Document] = []
        target = entry.get("target") if isinstance(entry, dict) else None
        if not isinstance(entry, dict):
            self._refuse(location, "expected a mapping with `path` or `patch`")
        elif entry.get("path") is not None:
            path = self._file(entry["path"], (*location, "path"))
            documents = self._sources.documents(path) if path else []
        elif isinstance(entry.get("patch"), str):
            documents = self._inline((*location, "patch"), entry["patch"])
        for document in documents:
            kind, name = str(mapping(target).get("kind") or ""), ""  # the target decides, not the patch
            if isinstance(document.data, list):
                self._sources.origins.append(Operations(kind, document))
            elif isinstance(document.data, dict):
                if not isinstance(target, dict):
                    kind, name = Manifest(document.data).kind, Manifest(document.data).name
                    self._check_patch_target(document, kind, name)
                self._sources.origins.append(Written(kind, name, document, is_patch=True))

    def _check_patch_target(self, document: Document, kind: str, name: str) -> None:
        """Check that the manifest exists that a patch without a target names."""
        own = (o for o in self._sources.origins if not (isinstance(o, Written) and o.is_patch))
        names = [o.name for o in own if isinstance(o, Written | Generated) and o.kind == kind]
        if name not in names:
            message = f"the patch is for the {kind or 'manifest'} {name!r}, which does not exist"
            hint = similar(name, names) or f"the overlay has: {', '.join(names) or 'none'}"
            self._sources.refuse(document.problem(("metadata", "name"), message, hint=hint))

    def _inline(self, location: Location, text: str) -> list[Document]:
        """Read an inline patch of a kustomization, with its line numbers in the kustomization.

        The content of a block scalar (`|`) begins in the line below its mark. Columns are counted for an indentation of
        six blanks, that of our own lists.
        """
        line = position(self._document, location).line
        placed = "\n" * line + textwrap.indent(text, " " * 6)
        documents, problems = yamlio.load_all(placed.encode(), self._document.name)
        self._sources.count(documents)
        self._sources.refuse(*problems)
        return documents

    def _rename(self, _: str, entry: Any, location: Location) -> None:
        """Note an entry of `images`; the registry is left to a replacement."""
        if isinstance(entry, dict) and entry.get("name"):
            self._sources.image_entries.append((entry, self._document.problem(location, "")))

    def _replace(self, _: str, entry: Any, location: Location) -> None:
        if not isinstance(entry, dict) or entry.get("path") is None:
            self._fill(entry)
        elif path := self._file(entry["path"], (*location, "path")):  # which holds a list of replacements, or one
            self._sources.refuse(*yamlio.indirections(self._sources.files[path], self._sources.shown(path)))
            for document in self._sources.documents(path):
                listed = isinstance(document.data, list)
                self._sources.refuse(*fields.check(document, replace(fields.REPLACEMENTS, listed=listed)))
                for replacement in document.data if listed else [document.data]:
                    self._fill(replacement)

    def _fill(self, entry: Any) -> None:
        """Note the fields that a replacement fills with a generated value, and check that value."""
        source = mapping(mapping(entry).get("source"))
        key = str(source.get("fieldPath", "")).removeprefix("data.")
        generated = (origin for origin in self._sources.origins if isinstance(origin, Generated))
        origin = next((one for one in generated if one.name == source.get("name") and key in one.keys), None)
        if origin is None:
            return
        for target in map(mapping, listing(mapping(entry).get("targets"))):
            paths = [str(path) for path in listing(target.get("fieldPaths"))]
            labels = [steps[-1] for steps in map(split, paths) if steps[:-1] == ["metadata", "labels"]]
            if labels:
                self._sources.numbers.add(key)
                self._labels |= dict.fromkeys(labels, origin.values.get(key, ""))
            select = mapping(target.get("select"))
            requirements = list(self._requirements(select))
            if all((label == value) != is_refused for label, is_refused, value in requirements):
                problems: list[Problem] = []
                if not target.get("options"):
                    problems += self._amounts(select, paths, key, origin, requirements)
                if _is_image_name(target, paths):
                    self._sources.image_keys.add(key)
                    problems += self._images(select, paths, key, origin)
                self._sources.refuse(*problems)
                self._sources.origins += [
                    Replaced(str(select.get("kind") or ""), str(select.get("name") or ""), path, origin.keys[key])
                    for path in paths
                    if not path.endswith(".image") or _is_image_name(target, paths)  # the registry is another value
                ]

    def _requirements(self, select: Mapping[str, Any]) -> Iterator[tuple[str, bool, str]]:
        """Yield each filled label of a selector, whether it must have another value, and this value."""
        for requirement in str(select.get("labelSelector") or "").split(","):
            match = _REQUIREMENT.fullmatch(requirement)
            if match and match["label"] in self._labels:
                yield self._labels[match["label"]], match["operator"] == "!=", match["value"]

    def _written(self, select: Mapping[str, Any], paths: Iterable[str]) -> Iterator[tuple[Document, Location, Any]]:
        """Yield the fields, as they are written, that a target selects."""
        for origin in self._sources.origins:
            if not isinstance(origin, Written) or origin.kind not in ("", select.get("kind")):
                continue
            for path in paths if origin.name in ("", select.get("name")) else ():
                for location, value in selected(path, origin.document.data):
                    yield origin.document, location, value

    def _amounts(
        self, select: Mapping[str, Any], paths: list[str], key: str, origin: Generated, requirements: list[Any]
    ) -> Iterator[Problem]:
        """Yield why a value is no plain number, or no quantity, for a field that it fills completely.

        kustomize puts any text there; kubectl then fails without a place, or reads `0x4` and `04` as 4.
        """
        value, place = origin.values.get(key, ""), origin.keys[key]
        if any(integer(written) is not None for *_, written in self._written(select, paths)):
            self._sources.numbers.add(key)
            if key not in KEYS and not re.fullmatch(_WHOLE_NUMBER, value):  # verify checks the options' values itself
                others = "".join(f" or {word!r}" for _, is_refused, word in requirements if is_refused)
                message = f"{key}: expected a whole number of at most {_DIGITS} digits{others}, found {show(value)}"
                yield Problem(*place, message)
        steps = [split(path) for path in paths]
        for name in dict.fromkeys(s[-1] for s in steps if s[-3:-1] in _QUANTITIES and s[-4:-3] != ["spec"]):
            self._sources.quantities.add(key)
            if complaint := quantity_complaint(name, value):
                yield Problem(*place, f"{key}: {complaint}")

    def _images(self, select: Mapping[str, Any], paths: list[str], key: str, origin: Generated) -> Iterator[Problem]:
        """Yield the problems with the image that a replacement puts together; note a registry in its name."""
        value, place = origin.values.get(key, ""), origin.keys[key]
        if complaint := image.complaint(value):
            column = len(key) + 2 + image.first_bad(value)
            yield Problem(place.file, place.line, column, f"{key}: {complaint}, found {show(value)}")
        if registry := split_registry(value)[0]:
            message = f"{key} is below {image.REGISTRY}: {show(registry)} is not the registry, but a part of the name"
            note = Problem(place.file, place.line, len(key) + 2, message, f"set {image.REGISTRY}")
            self._sources.notes.append(note)
        for document, location, written in self._written(select, paths):
            if written != image.WRITTEN:
                message = f"expected {image.WRITTEN}, which mlops.env fills in, found {show(written)}"
                yield document.problem(location, message, hint=IMAGE_HINT)


def _is_image_name(target: Mapping[str, Any], paths: list[str]) -> bool:
    """Whether a target of a replacement is the part of images that follows the registry."""
    options = mapping(target.get("options"))
    is_second = options.get("delimiter") == "/" and options.get("index") == 1
    return is_second and bool(paths) and all(path.endswith(".image") for path in paths)

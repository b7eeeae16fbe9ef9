"""Reads a package once, when a definition is registered: opens and verifies it, and renders one overlay.

The overlay is rendered twice: unchanged, and with opaque placeholders ("words") as the values of mlops.env. This shows
the places to which kustomize copies each value, so a job needs no kubectl.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from packager.base import envfile, masking, yamlio
from packager.base.errors import MlpackError, show_paths
from packager.base.limits import Limits
from packager.base.problems import similar
from packager.base.runner import SYSTEM
from packager.base.values import replace
from packager.cluster.target import chosen_overlays
from packager.configure.assignments import Assignment
from packager.configure.changes import Answers, configure
from packager.configure.settings import Files, options
from packager.kubernetes.kubectl.kustomize import MAX_BYTES
from packager.kubernetes.manifest import Manifest, dotted, listing, mapping
from packager.kubernetes.mountpath import ROOT
from packager.package import declared, layout
from packager.package.opened import opened
from packager.package.options import KEYS
from packager.rendering import render
from packager.rendering.overlay import RenderedOverlay
from packager.service.complaints import Complaint
from packager.service.registry.packages import filling
from packager.service.registry.packages.content import (
    PackageContent,
    PackageFacts,
    PackageKey,
    PackageObjects,
    PackageOrigin,
)
from packager.service.registry.packages.env import value_type
from packager.service.registry.packages.sources import located
from packager.verify import Checks, schema
from packager.verify import verify as verify_package
from packager.verify.allowed_fields import facts
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.envfile import Line
    from packager.base.problems import Problem
    from packager.base.runner import Runner
    from packager.base.yamlio import Location
    from packager.kubernetes.objects import Object
    from packager.package.opened import Package
    from packager.service.registry.packages.content import PackageBody
    from packager.service.registry.packages.sources import PackageSources

LIMITS = Limits(size=128 << 20, files=5_000, ratio=100)
"""The limits of a package; its code is in ConfigMaps, which are far smaller."""

MAX_RESULT = 1 << 20
MAX_OBJECTS = 40
MAX_KEYS = 300
"""The limits of the rendered manifests, which each job stores, in bytes and objects, and of the keys in mlops.env."""

_SOURCE = "/package/source"
_MOST_COMPLAINTS = 50
_LONGEST_DESCRIPTION = 500


class RefusedPackageError(MlpackError):
    """The package cannot be used.

    Attributes:
        complaints: The reasons.
    """

    def __init__(self, complaints: Sequence[Complaint]) -> None:
        super().__init__("the package cannot be used")
        self.complaints = tuple(complaints)[:_MOST_COMPLAINTS]


class PackageReader:
    """Reads packages. Each read occupies a processor for seconds, so the caller limits simultaneous reads."""

    def __init__(self, sources: PackageSources, *, kubectl: str = "kubectl", runner: Runner = SYSTEM) -> None:
        self._sources = sources
        self._kubectl = kubectl
        self._runner = runner

    def read(self, body: PackageBody, project: str | None = None) -> PackageContent:
        """Read a package, and return the rendered objects of its overlay and the keys that can be filled in.

        Args:
            body: The package in the definition.
            project: The project of the definition, whose passwords are used to pull; None for all projects.

        Raises:
            RefusedPackageError: The package does not exist, is not valid, or its values cannot be filled in.
        """
        with (
            _refusing(_SOURCE),
            located(body.source, self._sources, project) as place,
            _refusing(_SOURCE, str(place.path), body.source),
            opened(place.path, limits=LIMITS, shown_as=Path(body.source)) as package,
        ):
            content = self._content(package, body)
            return replace(content, origin=replace(content.origin, pulled=place.pulled))

    def _content(self, package: Package, body: PackageBody) -> PackageContent:
        checks = Checks((self._kubectl,), (schema.versions()[-1],), limits=LIMITS, runner=self._runner)
        report = verify_package(package, checks)
        complaints = [_of_problem(problem) for problem in report.problems]
        complaints += [Complaint(_SOURCE, f"the package could not be checked: {text}") for text in report.unchecked]
        if complaints:
            raise RefusedPackageError(complaints)
        with _refusing("/package/overlay"):
            overlay = chosen_overlays(package, body.overlay)[0]
        with _refusing("/package/options"):
            files = _with_options(package, overlay, body)
        path = layout.env(overlay)
        text = files.read(path)
        lines = list(envfile.lines(text))
        if len(lines) > MAX_KEYS:
            message = f"{package.shown(path)}: expected at most {MAX_KEYS} keys, found {len(lines)}"
            raise RefusedPackageError([Complaint(_SOURCE, message)])
        plain = self._rendered(files.edited_package(), overlay)
        on = [name for name, is_on in options(files, overlay).items() if is_on]
        sources = render.read(files.edited_package(), overlay)
        known = facts(RenderedOverlay(overlay, (), sources))
        mark = _mark(plain)
        # A field that takes a number or a quantity takes no word.
        keys = [line.key for line in lines if line.key not in sources.numbers | sources.quantities]
        for number, key in enumerate(keys):
            files.assign(path, key, filling.word(mark, number))
        objects = PackageObjects(
            objects=_named_alike(self._rendered(files.edited_package(), overlay), plain, mark),
            mark=mark,
            keys=keys,
            numbers=[],
            secrets=[],
            prefix=package.name,
            suffix=overlay,
            facts=PackageFacts(
                options=sorted(known.options), site=dict(known.site or {}), claims=sorted(known.claims or ())
            ),
        )
        listed, objects = _Places(package, plain, objects, lines, text).read()
        origin = PackageOrigin(
            source=body.source, name=package.name, digest=package.digest, overlay=overlay, options=on, keys=listed
        )
        return PackageContent(origin, objects)

    def _rendered(self, package: Package, overlay: str) -> list[Object]:
        """Return the rendered objects of an overlay. Raises RefusedPackageError."""
        outcome = render.kubectl(package, overlay, render.read(package, overlay), self._kubectl, self._runner)
        if len(outcome.manifests) > MAX_RESULT:
            message = f"{overlay} renders to more than {MAX_RESULT >> 10} KiB, which each job would keep"
            raise RefusedPackageError([Complaint(_SOURCE, message, "deliver less code, or put it into the image")])
        documents, problems = yamlio.load_all(outcome.manifests.encode(), overlay, max_bytes=MAX_BYTES)
        objects = [document.data for document in documents if document.data is not None]
        if problems or not all(isinstance(item, dict) for item in objects) or len(objects) > MAX_OBJECTS:
            raise RefusedPackageError([Complaint(_SOURCE, f"{overlay}: expected at most {MAX_OBJECTS} objects")])
        return objects


def _mark(objects: list[Object]) -> str:
    """Return the start of the words for objects: equal for equal objects, and not in any of their texts."""
    text = json.dumps(objects)
    marks = (f"v{hashlib.sha256(f'{number}{text}'.encode()).hexdigest()[:12]}" for number in itertools.count())
    return next(mark for mark in marks if mark not in text)


def _named_alike(objects: list[Object], plain: list[Object], mark: str) -> list[Object]:
    """Return objects with the names of those in `plain`: kustomize appends a digest of the content to names."""
    pairs = [(Manifest(one), Manifest(other)) for one, other in zip(objects, plain, strict=False)]
    names = {
        one.name: other.name
        for one, other in pairs
        if one.kind == other.kind and one.name != other.name and mark not in one.name
    }
    return [filling.renamed(item, names) for item in objects] if names else objects


@contextmanager
def _refusing(pointer: str, path: str = "", source: str = "") -> Iterator[None]:
    """Turn an error of mlpack into complaints about a part of the body, without paths of this machine."""
    try:
        yield
    except RefusedPackageError as error:
        raise RefusedPackageError([_named(complaint, source) for complaint in error.complaints]) from None
    except MlpackError as error:
        if path:
            show_paths(error, {path: source, str(Path(source)): source})
        complaints = [Complaint(pointer, str(error), error.hint)]
        complaints += [_of_problem(problem, pointer) for problem in error.problems]
        raise RefusedPackageError(complaints) from None


def _named(complaint: Complaint, source: str) -> Complaint:
    """Return a complaint with the source of the package as the definition has it: paths join the slashes of `oci://`."""
    detail = complaint.detail.replace(str(Path(source)), source) if source else complaint.detail
    return replace(complaint, detail=detail)


def _of_problem(problem: Problem, pointer: str = _SOURCE) -> Complaint:
    place = f"{problem.file}, line {problem.line}" if problem.line else problem.file
    return Complaint(pointer, f"{place}: {problem.message}", problem.hint)


def _with_options(package: Package, overlay: str, body: PackageBody) -> Files:
    """Return the files of a package, with the site options of the definition. Raises MlpackError."""
    for key in body.site:
        if key not in KEYS:
            hint = similar(key, KEYS)
            message = f"{key} is not a value of a site option"
            raise RefusedPackageError([Complaint("/package/site", message, hint)])
    if not (body.options or body.site):
        return Files(package)
    values = tuple(Assignment("--site", key, value) for key, value in body.site.items())
    return configure(package, (overlay,), Answers(assignments=values, switch_on=tuple(body.options)))


class _Places:
    """Finds the places of mlops.env values in the objects of a package."""

    def __init__(
        self, package: Package, plain: list[Object], marked: PackageObjects, lines: list[Line], text: bytes
    ) -> None:
        self._package = package
        self._plain = plain
        self._marked = marked
        self._lines = lines
        self._descriptions = _descriptions(text)
        self._pattern = re.compile(rf"{marked.mark}n([0-9]+)e")
        self._found: dict[str, list[Location]] = {line.key: [] for line in lines}
        self._numbers: list[list[str | int]] = []
        self._complaints: list[Complaint] = []

    def read(self) -> tuple[list[PackageKey], PackageObjects]:
        """Return the keys, and the objects with the data for filling in values. Raises RefusedPackageError."""
        self._walk((), self._plain, self._marked.objects)
        secret_names, of_secrets = self._declared()
        keys = [self._key(line) for line in self._lines]
        keys += [key for key in of_secrets if key.name not in {line.key for line in self._lines}]
        objects = PackageObjects(
            objects=self._marked.objects,
            mark=self._marked.mark,
            keys=self._marked.keys,
            numbers=self._numbers,
            secrets=secret_names,
            prefix=self._marked.prefix,
            suffix=self._marked.suffix,
            facts=self._marked.facts,
        )
        defaults = {line.key: line.value for line in self._lines}
        try:
            is_alike = bool(self._complaints) or filling.substituted(objects, defaults) == self._plain
        except filling.TooLongError:
            is_alike = False
        if not is_alike:
            self._complain("the values of mlops.env change more in the objects than single values")
        if self._complaints:
            raise RefusedPackageError(self._complaints)
        return keys, objects

    def _complain(self, message: str, hint: str | None = None) -> None:
        self._complaints.append(Complaint(_SOURCE, f"{self._package.source}: {message}", hint))

    def _walk(self, here: Location, plain: object, marked: object) -> None:
        """Record the places of words, and check that words change only single values."""
        if isinstance(marked, str):
            self._scalar(here, plain, marked)
        elif isinstance(marked, dict) and isinstance(plain, dict) and marked.keys() == plain.keys():
            for key, value in marked.items():
                self._walk((*here, key), plain[key], value)
        elif isinstance(marked, list) and isinstance(plain, list) and len(marked) == len(plain):
            for index, value in enumerate(marked):
                self._walk((*here, index), plain[index], value)
        elif marked != plain:
            self._complain(f"{_shown(here)}: a value of mlops.env decides which objects or fields there are")

    def _scalar(self, here: Location, plain: object, marked: str) -> None:
        words = [self._marked.keys[int(match[1])] for match in self._pattern.finditer(marked)]
        for key in words:
            self._found[key].append(here)
        if words and here[1:] == ("metadata", "name"):
            self._complain(f"{words[0]} is a part of an object's name, which the service chooses")
        if words and not isinstance(plain, str):
            if isinstance(plain, int) and not isinstance(plain, bool) and self._pattern.fullmatch(marked):
                self._numbers.append(list(here))
            else:
                self._complain(f"{_shown(here)}: {words[0]} is written into a field that takes other values than text")

    def _declared(self) -> tuple[list[str], list[PackageKey]]:
        """Return the names of the Secrets from which pods read the package's secrets, and the keys of these secrets."""
        known = declared.secrets(self._package)
        names: set[str] = set()
        required: dict[str, bool] = {}
        for item in self._plain:
            for pods in structures.pods(Manifest(item)):
                for _, container in pods.containers():
                    for variable in map(mapping, listing(container.get("env"))):
                        reference = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
                        name = variable.get("name")
                        if name in known and reference.get("key") == name and isinstance(reference.get("name"), str):
                            names.add(reference["name"])
                            required[str(name)] = reference.get("optional") is not True
        for name in known.keys() - required.keys():
            hint = 'switch it on: "options": ["secrets"]'
            self._complain(f"the package has the secret {name}, and its site option secrets is off", hint)
        return sorted(names), [
            PackageKey(
                name=name,
                default="",
                description=known[name],
                type="secret",
                required=is_required,
                fixed=False,
            )
            for name, is_required in required.items()
        ]

    def _key(self, line: Line) -> PackageKey:
        is_secret = masking.is_secret(line.key)
        if is_secret and line.value:
            message = f"mlops.env has a value for {line.key}, which its name says is a secret, and anyone can read it"
            self._complain(message, "leave the value empty: users fill it in")
        return PackageKey(
            name=line.key,
            default="" if is_secret else line.value,
            description=self._descriptions.get(line.key, ""),
            type="secret" if is_secret else value_type(line.value),
            required=False,
            of_package=line.key not in self._marked.keys,
            fixed=line.value == f"{ROOT}/{self._package.name}"  # the folder of the code, which is not for users
            or line.key not in self._marked.keys  # a number of the manifest
            or any(self._decides(location) for location in self._found[line.key]),
        )

    def _decides(self, location: Location) -> bool:
        """Whether a value at a place decides more than an environment variable, an argument or a mount path."""
        is_map = self._plain[int(location[0])].get("kind") == "ConfigMap"
        if is_map:
            return location[1] != "data"
        in_container = any(step in ("containers", "initContainers") for step in location)
        fields = {step for step in location if step in ("mountPath", "command", "args", "value")}
        return not (in_container and fields)


def _shown(location: Location) -> str:
    return dotted(location[1:])


def _descriptions(text: bytes) -> dict[str, str]:
    """Return the comment directly above each key of an env file."""
    descriptions: dict[str, str] = {}
    comment: list[str] = []
    for raw in text.decode("utf-8", "replace").splitlines():
        line = raw.strip()
        if line.startswith("#"):
            comment.append(line.lstrip("# ").rstrip())
            continue
        key, is_assignment, _ = line.partition("=")
        if is_assignment and comment:
            prose = " ".join(" ".join(comment).split())
            descriptions[key] = "".join(letter for letter in prose if letter.isprintable())[:_LONGEST_DESCRIPTION]
        comment = []
    return descriptions

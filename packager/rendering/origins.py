"""Finds the place where a part of a rendered manifest is written, so that findings point at lines of the package.

Kustomize renames, merges and generates, so line numbers of its output do not match any file. Each origin has one
place where a part of a manifest is written, and returns how much of a path into the manifest leads there.

Tests: verify/test_manifests.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from packager.base.values import Value, field
from packager.kubernetes.manifest import at
from packager.workloads.pods import QUOTE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from packager.base.yamlio import Document, Location


class Position(NamedTuple):
    """A file as the user named it, and a line and column in it, from 1."""

    file: str
    line: int
    column: int


class Origin(Protocol):
    """A part of a manifest as it is written in the package."""

    def place(self, location: Location, manifest: Mapping[str, Any], *, at_key: bool) -> tuple[int, Position] | None:
        """Return how many steps of `location` this origin contains, and the position of the last; None without any."""


class Written(Value, frozen=True):
    """A manifest, or a patch that looks like one: a file's document, or a patch inside a kustomization."""

    kind: str
    name: str
    document: Document
    is_patch: bool = False

    def place(self, location: Location, manifest: Mapping[str, Any], *, at_key: bool) -> tuple[int, Position] | None:
        """See `Origin`."""
        if not matches(manifest, self.kind, self.name):
            return None
        if self.is_patch and location[:2] == ("metadata", "name"):
            return None  # the name in a patch selects the object, and does not set its name
        steps = _written_steps(self.document.data, location, manifest)
        return len(steps), position(self.document, steps, at_key=at_key and len(steps) == len(location))


class Operations(Value, frozen=True):
    """A JSON patch (RFC 6902): a list of operations on the objects that its target selects."""

    kind: str
    document: Document
    name: str = ""

    def place(self, location: Location, manifest: Mapping[str, Any], *, at_key: bool) -> tuple[int, Position] | None:
        """See `Origin`."""
        del at_key
        best: tuple[int, Position] | None = None
        for index, operation in enumerate(self.document.data if matches(manifest, self.kind, "") else ()):
            pointer = operation.get("path") if isinstance(operation, dict) else None
            path = [step.replace("~1", "/").replace("~0", "~") for step in str(pointer).split("/")[1:]]
            is_item = path[-1:] == ["-"]  # an appended item is the one that has its name
            if not _is_prefix(path, location) or (
                is_item and _name(operation.get("value")) != _name(at(manifest, location[: len(path)]))
            ):
                continue
            if best is None or len(path) >= best[0]:
                best = len(path), position(self.document, (index, "value"))
        return best


class Generated(Value, frozen=True):
    """A ConfigMap or Secret that a kustomization makes: a key from a file, a line of an env file, or a literal."""

    kind: str
    name: str
    position: Position  # the place of the name
    keys: dict[str, Position] = field(default_factory=dict)  # the place of each key
    values: dict[str, str] = field(default_factory=dict)  # the values of env files and literals, by key

    def place(self, location: Location, manifest: Mapping[str, Any], *, at_key: bool) -> tuple[int, Position] | None:
        """See `Origin`."""
        del at_key
        if not matches(manifest, self.kind, self.name):
            return None
        if len(location) > 1 and location[0] in ("data", "binaryData") and location[1] in self.keys:
            return 2, self.keys[str(location[1])]
        return 1, self.position


class Replaced(Value, frozen=True):
    """A field that a replacement fills with a value of an env file."""

    kind: str
    name: str
    field_path: str
    position: Position

    def place(self, location: Location, manifest: Mapping[str, Any], *, at_key: bool) -> tuple[int, Position] | None:
        """See `Origin`."""
        if at_key or not matches(manifest, self.kind, self.name):
            return None
        fields = (field for field, _ in selected(self.field_path, manifest))
        return (len(location), self.position) if location in fields else None


def find(
    origins: Iterable[Origin], location: Location, manifest: Mapping[str, Any], *, at_key: bool = False
) -> Position | None:
    """Return the position of the value at `location`: the deepest, and of equally deep ones the last applied."""
    best: tuple[int, Position] | None = None
    for origin in origins:
        match = origin.place(location, manifest, at_key=at_key)
        if match and (best is None or match[0] >= best[0]):
            best = match
    return best[1] if best else None


def matches(manifest: Mapping[str, Any], kind: str, name: str) -> bool:
    """Whether `manifest` can come from an object of this kind and name, with a prefix and a suffix added."""
    metadata = manifest.get("metadata")
    rendered = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
    return kind in ("", str(manifest.get("kind"))) and name in rendered


def _written_steps(written: Any, location: Location, rendered: Any) -> Location:
    """Return the steps of `location` that `written` has, with its own indices; items of lists are matched by name."""
    steps: list[str | int] = []
    for step in location:
        rendered = at(rendered, (step,))
        if isinstance(step, int):
            here = _matching_item(written, step, rendered)
            if here is None:
                break
            steps.append(here)
            written = written[here]
        elif isinstance(written, dict) and step in written:
            steps.append(step)
            written = written[step]
        else:
            break
    return tuple(steps)


def _matching_item(written: Any, index: int, rendered: Any) -> int | None:
    """Return the index in `written` of the item that became the item `rendered` at `index`; None without one."""
    if not isinstance(written, list):
        return None
    name = rendered.get("name") if isinstance(rendered, dict) else None
    if name is None:
        candidates = [here for here, item in enumerate(written) if item == rendered or index == here]
    else:
        candidates = [here for here, item in enumerate(written) if isinstance(item, dict) and item.get("name") == name]
    return index if index in candidates else next(iter(candidates), None)


def _name(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else item


def _is_prefix(path: list[str], location: Location) -> bool:
    """Whether a JSON pointer's steps are the beginning of `location`; `-`, an appended item, matches any index."""
    return len(path) <= len(location) and all(
        step == str(here) or (step == "-" and isinstance(here, int)) for step, here in zip(path, location, strict=False)
    )


def _finds(pattern: str, name: str) -> bool:
    """Whether kustomize finds a pattern in a name: it searches for a regular expression. Ours are anchored names."""
    start, end = "\n" * pattern.startswith("^"), "\n" * pattern.endswith("$")
    plain = pattern.replace(QUOTE, "").removeprefix("^").removesuffix("$")
    return f"{start}{plain}{end}" in f"\n{name}\n"


def selected(field_path: str, manifest: Any) -> Iterator[tuple[Location, Any]]:
    """Yield the location and the value of each field of a manifest that a field path of kustomize selects."""
    places: list[tuple[Location, Any]] = [((), manifest)]
    for step in split(field_path):
        places = [((*location, here), inside) for location, value in places for here, inside in _inside(step, value)]
    yield from places


def _inside(step: str, value: Any) -> Iterator[tuple[str | int, Any]]:
    """Yield the places at one step of a field path, and the values there."""
    if isinstance(value, dict):
        yield from value.items() if step == "*" else ((step, value[step]),) if step in value else ()
    elif isinstance(value, list):
        key, _, expected = step[1:-1].partition("=")
        for index, item in enumerate(value):
            is_named = step.startswith("[") and isinstance(item, dict) and _finds(expected, str(item.get(key)))
            if is_named or step in (str(index), "*"):
                yield index, item


def split(field_path: str) -> list[str]:
    r"""Return the steps of a kustomize field path: dots separate them, except in `[name=value]` and as `\.`."""
    if "[" not in field_path and "\\" not in field_path:
        return field_path.split(".")
    steps, depth, is_escaped = [""], 0, False
    for character in field_path:
        depth += (character == "[") - (character == "]")
        if character == "." and depth <= 0 and is_escaped:
            steps[-1] = f"{steps[-1][:-1]}."
        elif character == "." and depth <= 0:
            steps.append("")
        else:
            steps[-1] += character
        is_escaped = character == "\\"
    return steps


def position(document: Document, location: Location, *, at_key: bool = False) -> Position:
    """Return the place of a value, or of its key, in a document."""
    problem = document.problem(location, "", at_key=at_key)
    return Position(problem.file, problem.line, problem.column)

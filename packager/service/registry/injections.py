"""Finds filled values that a template writes into code, which a shell or an interpreter runs.

The template is rendered with marks in place of the values. A mark in a script that is not a quoted word of the shell
(the filter `sh`) shows a place where a value such as `$(…)` would run.

Tests: service/registry/test_definitions.py.
"""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import listing, mapping
from packager.service.registry.description import FreeMapping, Group, Items, Leaf, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.kubernetes.objects import Object
    from packager.service.registry.description import Described
    from packager.service.registry.rendering import FilledTemplate

MAX_SINGLE = 20
"""The maximum number of values that are tried one by one, if the template cannot be rendered with all marks."""

_SAFE_TYPES = ("integer", "number", "boolean", "quantity")
_LABELS = ("taskDef", "name", "creator")
"""The keys whose values are label values, with only letters, digits and '-_.'."""

_CODE_OPTION = re.compile(r"-[A-Za-z]*[ceE]|--?(?:command|eval|exec|execute|run)")
"""An option whose argument is code: `bash -ec`, `python3 -c`, `perl -e`."""

_SCRIPT_KEY = re.compile(r".*\.(?:sh|bash|zsh|ksh|py|pl|rb|js|lua|r|R)", re.DOTALL)
_HINT = "quote it with the filter sh, pass it in an environment variable, or describe it as an integer"


def warnings(
    described: Group, filled: Mapping[str, Json], render: Callable[[Mapping[str, Json]], FilledTemplate]
) -> list[str]:
    """Return a warning for each filled value that becomes a part of code.

    Args:
        described: The description of the values.
        filled: Values that satisfy the description.
        render: Renders the template with other values.
    """
    locations = list(_texts((), described, dict(filled)))
    marks = {location: f"mlpack{index}mark'\"$(x)" for index, location in enumerate(locations)}

    def rendered(marks: Mapping[Location, str]) -> FilledTemplate:
        return render({key: _marked(value, marks, (key,)) for key, value in filled.items()})

    every = rendered(marks)
    if not every.problems:
        return list(_found(every.objects, marks))
    pairs = ({place: mark} for place, mark in itertools.islice(marks.items(), MAX_SINGLE))
    return [warning for pair in pairs for warning in _found(rendered(pair).objects, pair)]


def _texts(here: Location, described: Described | None, value: Json) -> Iterator[Location]:
    """Yield the location of each value that may be any text."""
    if isinstance(value, dict):
        entries = dict(described.entries) if isinstance(described, Group) else {}
        free = FreeMapping() if isinstance(described, FreeMapping) or described is None else None
        for key, item in value.items():
            if here or key not in _LABELS:
                yield from _texts((*here, key), entries.get(key, free), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            number = kind_of(described, item) if isinstance(described, Items) else None
            kind = described.kinds[number] if isinstance(described, Items) and number is not None else None
            yield from _texts((*here, index), kind, item)
    elif value is not None and here[-1] != "type" and not _is_safe(described):
        yield here


def _is_safe(described: Described | None) -> bool:
    return isinstance(described, Leaf) and described.type in _SAFE_TYPES


def _marked(value: Json, marks: Mapping[Location, str], here: Location) -> Json:
    """Return a copy of the value at `here` with marks at their locations."""
    if here in marks:
        return marks[here]
    if isinstance(value, dict):
        return {key: _marked(item, marks, (*here, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, marks, (*here, index)) for index, item in enumerate(value)]
    return value


def _found(objects: tuple[Object, ...], marks: Mapping[Location, str]) -> Iterator[str]:
    """Yield a warning for each mark in code that is not a quoted word."""
    for place, code in (pair for item in objects for pair in _code(item, str(item.get("kind")))):
        for location, mark in marks.items():
            if mark.partition("'")[0] in code.replace(shlex.quote(mark), "").lower():
                name = ".".join(map(str, location))
                yield f"{name} becomes a part of the code in {place}: a value such as $(…) would run there; {_HINT}"


def _code(value: Json, here: str) -> Iterator[tuple[str, str]]:
    """Yield each text in an object that runs as code, after its place."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _code(item, f"{here}[{index}]")
    elif isinstance(value, dict):
        if here == "ConfigMap":
            yield from _scripts(mapping(value.get("data")))
        yield from _arguments(value, here)
        for key, item in value.items():
            yield from _code(item, f"{here}.{key}")


def _scripts(data: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    for key, text in data.items():
        if isinstance(text, str) and (text.startswith("#!") or _SCRIPT_KEY.fullmatch(key)):
            yield f"ConfigMap.data.{key}", text


def _arguments(value: Mapping[str, Json], here: str) -> Iterator[tuple[str, str]]:
    """Yield the arguments of a command that are code, after their places; further options may precede the code."""
    words = [
        (f"{here}.{key}[{index}]", word)
        for key in ("command", "args")
        for index, word in enumerate(listing(value.get(key)))
        if isinstance(word, str)
    ]
    is_code = False
    for place, word in words:
        if is_code and not re.fullmatch("[-+][A-Za-z]+", word):
            yield place, word
            is_code = False
        elif _CODE_OPTION.fullmatch(word):
            is_code = True

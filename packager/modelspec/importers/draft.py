"""Draft: a model folder before it is written. Tests: modelspec/importers/mxjob/test_read.py."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from packager.base.names import LETTER_FIRST
from packager.base.values import Value, field
from packager.package.options import KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.modelspec.importers.source import ValueOrigin

LONGEST_NAME = 40
"""The most characters of the name of a model or an overlay (`packager.base.fields.Label`)."""


class DraftFile(Value, frozen=True):
    """A file of the model folder.

    Attributes:
        path: The path in the model folder.
        content: The content, or the file to copy.
        executable: Whether the file is executable.
    """

    path: str
    content: bytes | Path
    executable: bool = False


class Draft(Value, frozen=True):
    """A model folder that an importer returns.

    Attributes:
        name: The name of the model and its folder.
        header: The first line of the spec, without `#`.
        data: The spec as plain values.
        origins: The origin of each value, by its location in the spec.
        files: The other files.
        findings: The parts of the imported file that are not carried over.
        options: The options that a build needs.
        site: The values of the options, for `site.env`.
        source: The imported file, as the user named it.
        kind: The kind of the file, such as "an MxJob".
        namespace: The namespace that the file names; None if it names none.
    """

    name: str
    header: str
    data: dict[str, Any]
    origins: dict[Location, ValueOrigin]
    files: tuple[DraftFile, ...]
    findings: tuple[Problem, ...]
    options: tuple[str, ...]
    site: tuple[tuple[str, str], ...]
    source: str
    kind: str
    namespace: str | None = None


class Sketch:
    """A draft in the making.

    Attributes:
        data: The spec so far.
        origins: The origin of each value of the spec.
        files: The other files.
        options: The options that a build needs, in the order in which they were found.
        site: The values of the options, for `site.env`.
    """

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.origins: dict[Location, ValueOrigin] = {}
        self.files: list[DraftFile] = []
        self.options: list[str] = []
        self.site: dict[str, str] = {}

    def put(self, location: Location, value: Any, origin: ValueOrigin) -> None:
        """Set the value at `location` in the spec; create missing mappings and lists on the way."""
        node: Any = self.data
        for step, following in pairwise(location):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(step, int) and step == len(node):
                node.append(empty)
            elif isinstance(step, str) and step not in node:
                node[step] = empty
            node = node[step]
        last = location[-1]
        if isinstance(last, int) and last == len(node):
            node.append(value)
        else:
            node[last] = value
        self.origins[location] = origin

    def option(self, name: str, **site: str) -> None:
        """Note that a build needs an option, with values for `site.env`."""
        if name not in self.options:
            self.options.append(name)
        self.site |= site


def with_option(sketch: Sketch, option: str, **site: str) -> str:
    """Note that a build needs an option, unless a value is invalid; return the arguments that switch the option on."""
    for key, value in site.items():
        if complaint := KEYS[key].complaint(value):
            return f"--with {option}, and another {key}: {complaint}"
    sketch.option(option, **site)
    return " ".join((f"--with {option}", *(f"--site {key}={value}" for key, value in site.items())))


class Naming(Value, frozen=True):
    """A name that was derived from another name.

    Attributes:
        name: The derived name.
        changes: The change, as the predicate of a finding; empty if the name is unchanged.
    """

    name: str
    changes: str = field(default="")


def named(original: str, *, prefix: str, longest: int = LONGEST_NAME) -> Naming:
    """Return `original` as a name of a model or an overlay: lower case, and each run of other characters one '-'.

    Args:
        original: The name in the imported file.
        prefix: The prefix for a name that does not begin with a letter.
        longest: The most characters of the result.
    """
    lower = re.sub(r"[^a-z0-9]+", "-", original.lower()).strip("-")
    if not re.match("[a-z]", lower):
        lower = f"{prefix}-{lower}".strip("-")
    name = lower[:longest].rstrip("-")
    assert re.fullmatch(LETTER_FIRST, name), name
    return Naming(name, "" if name == original else f"becomes {name!r}")

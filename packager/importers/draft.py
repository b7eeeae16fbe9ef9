"""Draft: a model folder before it is written."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from packager.base.names import LETTER_FIRST
from packager.base.values import Value, field
from packager.options import KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.importers.source import ValueOrigin

LONGEST_NAME = 40
"""How long the name of a model or of an overlay may be (`packager.base.fields.Label`)."""


class DraftFile(Value, frozen=True):
    """A file of the model folder.

    Attributes:
        path: Where it is in the model folder.
        content: Its bytes, or the file that they are copied from.
        executable: Whether it may be executed.
    """

    path: str
    content: bytes | Path
    executable: bool = False


class Draft(Value, frozen=True):
    """What an importer returns.

    Attributes:
        name: The model's name, and the folder's.
        header: The first line of the spec, without `#`.
        data: The spec as plain values.
        origins: Where each value came from, by its place in the spec.
        files: The other files.
        findings: What is not carried over.
        options: The options that a build needs.
        site: Their values.
        source: The imported file, as the user named it.
        kind: What it is: "an MxJob".
        namespace: The namespace in which it says that it runs; None if it says nothing of it.
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
        origins: Where each of its values came from.
        files: The other files.
        options: The options that a build needs, in the order in which they were found.
        site: Their values.
    """

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.origins: dict[Location, ValueOrigin] = {}
        self.files: list[DraftFile] = []
        self.options: list[str] = []
        self.site: dict[str, str] = {}

    def put(self, location: Location, value: Any, origin: ValueOrigin) -> None:
        """Set the value at `location` in the spec; mappings and lists on the way are made."""
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
    """Note that a build needs an option, and return how a build switches it on; not with a value that none accepts."""
    for key, value in site.items():
        if complaint := KEYS[key].complaint(value):
            return f"--with {option}, and another {key}: {complaint}"
    sketch.option(option, **site)
    return " ".join((f"--with {option}", *(f"--site {key}={value}" for key, value in site.items())))


class Naming(Value, frozen=True):
    """A name made of another one.

    Attributes:
        name: The result.
        changes: What was changed, as a sentence for a finding; empty when nothing was.
    """

    name: str
    changes: str = field(default="")


def named(original: str, *, prefix: str, longest: int = LONGEST_NAME) -> Naming:
    """Return `original` as a name of a model or an overlay: lower case, and each run of other characters one '-'.

    Args:
        original: What others call it.
        prefix: What comes before a name that does not begin with a letter.
        longest: How many characters the result may have.
    """
    lower = re.sub(r"[^a-z0-9]+", "-", original.lower()).strip("-")
    if not re.match("[a-z]", lower):
        lower = f"{prefix}-{lower}".strip("-")
    name = lower[:longest].rstrip("-")
    assert re.fullmatch(LETTER_FIRST, name), name
    return Naming(name, "" if name == original else f"becomes {name!r}")

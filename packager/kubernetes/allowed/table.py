"""Reads `fields.txt`, the list of everything that objects may contain; its head explains the columns."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from packager.base.values import Value

BUILD = "build"
TEMPLATE = "template"
ELSEWHERE = ("Secret", "ServiceAccount")
"""What the last column says of fields that any build makes, that templates may use, or that another check names."""

LABEL = "label:"
ANNOTATION = "annotation:"
POD = "pod"
OBJECT = "object"
NESTED = (POD, "container", "probe", "jobspec")
"""What the third column names of the first: the value of such a field has the fields that are listed there."""

PARTS = (OBJECT, *NESTED[1:])
"""What is no kind in the first column."""


class Row(Value, frozen=True):
    """One line of the table.

    Attributes:
        where: What it is about: `object`, `pod`, another part, or a kind in lower case.
        what: A field below it, or the key of a label or an annotation.
        value: Which values it may have.
        who: Who makes it.
    """

    where: str
    what: str
    value: str
    who: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that make it, one of which has to be on."""
        return tuple(name for name in self.who if name not in (BUILD, TEMPLATE, *ELSEWHERE))


class Node:
    """A field: the rows that are about it, and what is below it.

    Attributes:
        rows: Those rows.
        steps: The fields below it: by name, `*` for each key of a mapping, `[]` for each item of a list.
        subtree: All rows about it or about what is below it.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.steps: dict[str, Node] = {}
        self.subtree: list[Row] = []


@cache
def rows() -> tuple[Row, ...]:
    """Return every line of the table, in its order."""
    text = files(__package__).joinpath("fields.txt").read_text(encoding="utf-8")
    lines = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return tuple(Row(where, what, value, tuple(who.split(","))) for where, what, value, who in lines)


@cache
def fields() -> dict[str, Node]:
    """Return the fields of each kind and part, as trees."""
    roots: dict[str, Node] = {}
    for row in rows():
        if row.what.startswith((LABEL, ANNOTATION)):
            continue
        node = roots.setdefault(row.where, Node())
        node.subtree.append(row)
        for step in row.what.replace("[]", ".[]").split("."):
            node = node.steps.setdefault(step, Node())
            node.subtree.append(row)
        node.rows.append(row)
    return roots


@cache
def keys() -> dict[tuple[str, str], tuple[Row, ...]]:
    """Return the rows about each label and annotation, by `object` or `pod` and by `label:KEY` or `annotation:KEY`."""
    by_key: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in rows():
        if row.what.startswith((LABEL, ANNOTATION)):
            by_key[row.where, row.what] = (*by_key.get((row.where, row.what), ()), row)
    return by_key

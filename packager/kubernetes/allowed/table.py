"""Reads `fields.txt`, the list of all fields that objects may contain. Tests: verify/test_allowed_fields.py."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from packager.base.values import Value

BUILD = "build"
TEMPLATE = "template"
ELSEWHERE = ("Secret", "ServiceAccount")
"""The words of the last column, besides options: for fields that any build makes, that only templates may use, or that
another check reports."""

LABEL = "label:"
ANNOTATION = "annotation:"
POD = "pod"
OBJECT = "object"
NESTED = (POD, "container", "probe", "podterm", "jobspec")
"""The parts that the third column may name: the value of such a field has the fields of that part."""

PARTS = (OBJECT, *NESTED[1:])
"""The words of the first column that are not kinds."""


class Row(Value, frozen=True):
    """One line of the table."""

    where: str  # the holder of the field: `object`, `pod`, another part, or a kind in lower case
    what: str  # a field below the holder, or the key of a label or an annotation
    value: str  # the rule for the field's values
    who: tuple[str, ...]  # the makers of the field: a build, templates, another check's kind, or options

    @property
    def options(self) -> tuple[str, ...]:
        """The options that make the field, one of which must be on."""
        return tuple(name for name in self.who if name not in (BUILD, TEMPLATE, *ELSEWHERE))


class Node:
    """A field: its rows, and the fields below it."""

    def __init__(self) -> None:
        self.rows: list[Row] = []  # the rows about the field
        # the fields below it: by name, `*` for each key of a mapping, `[]` for each item of a list
        self.steps: dict[str, Node] = {}
        self.subtree: list[Row] = []  # all rows about the field or fields below it


@cache
def rows() -> tuple[Row, ...]:
    """Return every line of the table, in its order."""
    text = Path(__file__).with_name("fields.txt").read_text(encoding="utf-8")
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

"""Reads `fields.txt`, the list of all fields that objects may contain. Tests: verify/test_allowed_fields.py."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


ANY = "any"
ALL = "all"
TAINT = "taint"

REQUIRED = frozenset((TAINT,))
"""The rules of required fields: a toleration without a taint tolerates every taint."""

_OF_SYSTEM = "node-role.kubernetes.io/"
"""The prefix of the taints of nodes that are reserved for Kubernetes itself."""

REFERENCES = {"configmap": "ConfigMap", "claim": "PersistentVolumeClaim"}
"""The kinds of the objects that values refer to, by the table's rule."""


class Facts(Value, frozen=True):
    """The options, values and names of a package or a template that the rules refer to."""

    options: frozenset[str] = frozenset()  # the options that are switched on
    site: Mapping[str, str] | None = None  # the values of site.env; None if they are unknown, which permits any value
    config_maps: frozenset[str] = frozenset()  # the names of the package's ConfigMaps
    # the claims that pods may mount: the package's, and those that options and the spec name; None for any
    claims: frozenset[str] | None = None
    names: tuple[str, ...] = ()  # the values of labels that may name the package and the overlay
    is_template: bool = False  # whether the objects are of an administrator's template


def fits(rule: str, value: Any, name: str, facts: Facts) -> bool:
    """Whether the table's `rule` permits a value in the object `name`."""
    if rule == ALL:
        return True
    if not isinstance(value, str | int | float):
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    kind, colon, argument = rule.partition(":")
    if colon or rule in _RULES:
        return _RULES[kind](text, argument, name, facts)
    return text in rule.split("|")


_RULES: Mapping[str, Callable[[str, str, str, Facts], bool]] = {
    ANY: lambda *_: True,
    "not": lambda text, prefix, *_: not text.startswith(prefix),
    TAINT: lambda text, *_: text != "" and not text.startswith(_OF_SYSTEM),
    "positive": lambda text, *_: re.fullmatch(r"[1-9][0-9]{0,9}%?", text) is not None,
    "most": lambda text, most, *_: re.fullmatch(r"[0-9]{1,9}", text) is not None and int(text) <= int(most),
    "env": lambda text, key, _, facts: facts.site is None or facts.site.get(key) == text,
    "option": lambda text, prefix, _, facts: f"{prefix}{text}" in facts.options,
    "name": lambda text, _, name, __: text == name,
    "own": lambda text, _, name, facts: text == name or text in facts.names,
    "configmap": lambda text, _, __, facts: text in facts.config_maps,
    "claim": lambda text, _, __, facts: facts.claims is None or text in facts.claims,
    "claims": lambda text, _, __, facts: facts.claims is None or facts.claims.issuperset(text.split()),
}

_WORDS = {
    TAINT: "a taint that is not the control plane's",
    "positive": "a number from 1",
    "name": "the object's own name",
    "own": "the name of the object, the package or the overlay",
    "configmap": "a ConfigMap of the package",
    "claim": "a claim of the package, of an option or of the spec",
    "claims": "claims of the package, of an option or of the spec",
}


def expected(rule: str) -> str:
    """Return the values that a rule permits, as the rest of a sentence "expected …"."""
    kind, colon, argument = rule.partition(":")
    if not colon:
        return _WORDS.get(rule) or " or ".join(rule.split("|"))
    words = {
        "not": "none that begins with {}",
        "most": "at most {}",
        "env": "the value of {} in site.env",
        "option": "the option's name",
    }
    return words[kind].format(argument)

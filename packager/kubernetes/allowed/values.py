"""The rules of the table for the values of fields, labels and annotations. Tests: verify/test_allowed_fields.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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

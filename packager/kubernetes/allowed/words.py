"""The words of `--allow`: kinds, fields, labels and others. Tests: verify/test_allowed_fields.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.names import SUBDOMAIN, is_key
from packager.kubernetes.allowed.table import ANNOTATION, LABEL

if TYPE_CHECKING:
    from collections.abc import Collection

_KIND = re.compile(rf"[A-Za-z][A-Za-z0-9]*(\.{SUBDOMAIN})?")
_FIELD = re.compile(r"([a-z][a-z0-9]*)((?:\.[A-Za-z][A-Za-z0-9]*(?:\[\])*|\.\*)+)")
_TOP = ("data", "metadata", "spec")
"""Fields right below an object; no API group begins with one of these words."""

VARIABLE = "variable:"
"""The prefix of the words for variables that an edit adds."""

NAME = "name:"
"""The prefix of the words for the names of objects, and for names that begin with one and a dash."""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")

EXPECTED = (
    "expected a kind such as Service or Service.serving.knative.dev, a field such as pod.spec.hostname, "
    "label:KEY, annotation:KEY, variable:NAME or name:NAME"
)


def variable(name: str) -> str:
    """Return the word that permits an edit to add a variable."""
    return f"{VARIABLE}{name}"


def is_kind(word: str) -> bool:
    """Whether a word names a kind: `Kind`, or `Kind.group`."""
    group = word.partition(".")[2]
    return _KIND.fullmatch(word) is not None and word[:1].isupper() and group.partition(".")[0] not in _TOP


def is_word(word: str) -> bool:
    """Whether a word is valid for `--allow`."""
    if word.startswith((LABEL, ANNOTATION)):
        return is_key(word.partition(":")[2])
    if word.startswith(VARIABLE):
        return _NAME.fullmatch(word.removeprefix(VARIABLE)) is not None
    if word.startswith(NAME):
        return re.fullmatch(SUBDOMAIN, word.removeprefix(NAME)) is not None
    return is_kind(word) or _FIELD.fullmatch(word) is not None


def permits(allowed: Collection[str], word: str) -> bool:
    """Whether one of the words `allowed` is the field, label or annotation `word`, or a field that contains it."""
    return any(word == one or word.startswith((f"{one}.", f"{one}[]")) for one in allowed)

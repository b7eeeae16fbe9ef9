"""What jobs may create, and the words of `allow` in server.yaml, which permit more than the table of allowed fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.names import is_key
from packager.base.problems import show, similar
from packager.kubernetes.allowed import words
from packager.kubernetes.allowed.table import ANNOTATION, LABEL
from packager.verify import rights, schema
from packager.workloads.kinds import kinds as workload_kinds
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORKLOADS = tuple(
    (structure.api, kind) for kind, structure in structures().items() if not workload_kinds()[kind].serves
)
"""The kinds of which a task has exactly one object: those that end."""

COMPANIONS = (("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"), ("v1", "Secret"), ("v1", "Service"))
"""The other kinds that a task may create."""

RESOURCE = "resource:"
"""What the name of a resource follows that is no GPU."""

_RIGHTS = (rights.SECRET, rights.ACCOUNT)
_KINDS = {kind.lower(): (api, kind) for api, kind in (*WORKLOADS, *COMPANIONS)}
_PREFIXES = (LABEL, ANNOTATION, RESOURCE)
_EXPECTED = (
    f"expected a field such as pod.spec.hostname, label:KEY, annotation:KEY, resource:NAME, {' or '.join(_RIGHTS)}"
)


def faults(allowed: Sequence[str]) -> Iterator[Fault]:
    """Yield what is wrong with the words of a list, each at its index."""
    for index, word in enumerate(allowed):
        if message := _complaint(word):
            yield Fault((index,), *message)


def resources(allowed: Sequence[str] | frozenset[str]) -> frozenset[str]:
    """Return the resources that words declare to be no GPUs."""
    return frozenset(word.removeprefix(RESOURCE) for word in allowed if word.startswith(RESOURCE))


def _complaint(word: str) -> tuple[str, str | None] | None:
    """Return why a word permits nothing, and the hint; None if it permits something."""
    prefix, colon, name = word.partition(":")
    if colon:
        if f"{prefix}:" not in _PREFIXES:
            return f"{_EXPECTED}, found {show(word)}", similar(prefix, (one.rstrip(":") for one in _PREFIXES))
        is_known = is_key(name) and (f"{prefix}:" != RESOURCE or "/" in name)
        return None if is_known else (f"{show(name)} is not the name of a {prefix}", None)
    kind, dot, path = word.partition(".")
    if not dot:
        return None if word in _RIGHTS else (f"{_EXPECTED}, found {show(word)}", similar(word, _RIGHTS))
    if kind not in _KINDS:
        return f"a task creates no {show(kind)}", similar(kind, _KINDS)
    if not words.is_word(word):
        return f"{_EXPECTED}, found {show(word)}", None
    return schema.unknown_step(*_KINDS[kind], path)

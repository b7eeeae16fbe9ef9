"""The kinds of objects that jobs may create, and checks of `allow`. Tests: service/test_config_file.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.names import is_key
from packager.base.problems import show, similar
from packager.kubernetes.allowed import words
from packager.kubernetes.allowed.table import ANNOTATION, LABEL
from packager.verify import credentials, schema
from packager.workloads.kinds import kinds as workload_kinds
from packager.workloads.structures import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WORKLOADS = tuple(
    (structure.api, kind) for kind, structure in structures().items() if not workload_kinds()[kind].serves
)
"""The kinds of workloads, all of which end; a task has exactly one of them."""

COMPANIONS = (("v1", "ConfigMap"), ("v1", "PersistentVolumeClaim"), ("v1", "Secret"), ("v1", "Service"))
"""The other kinds that a task may create."""

RESOURCE = "resource:"
"""The prefix of an entry that declares a resource not to be a GPU."""

_RIGHTS = (credentials.SECRET, credentials.ACCOUNT)
_KINDS = {kind.lower(): (api, kind) for api, kind in (*WORKLOADS, *COMPANIONS)}
_PREFIXES = (LABEL, ANNOTATION, RESOURCE)
_EXPECTED = (
    f"expected a field such as pod.spec.hostname, label:KEY, annotation:KEY, resource:NAME, {' or '.join(_RIGHTS)}"
)


def faults(allowed: Sequence[str]) -> Iterator[Fault]:
    """Yield the faults of the entries of `allow`, each with the index of its entry."""
    for index, word in enumerate(allowed):
        if message := _complaint(word):
            yield Fault((index,), *message)


def resources(allowed: Sequence[str] | frozenset[str]) -> frozenset[str]:
    """Return the resources that entries of `allow` declare not to be GPUs."""
    return frozenset(word.removeprefix(RESOURCE) for word in allowed if word.startswith(RESOURCE))


def _complaint(word: str) -> tuple[str, str | None] | None:
    """Return the message and the hint for an entry that permits nothing; None for a valid entry."""
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

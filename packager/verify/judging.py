"""Judges the objects of a task, which are in no package: what the task service needs of `verify`.

Each task is judged by `judge`, for what could reach others. What the API server refuses itself is judged by
`value_faults` only when a template or a definition is registered, on the objects of the definition's example.

Tests: service/registry/test_policy.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.names import is_key
from packager.base.problems import show, similar
from packager.base.values import Value
from packager.kubernetes.allowed import words
from packager.kubernetes.allowed.table import ANNOTATION, LABEL, Facts
from packager.kubernetes.manifest import Manifest, at, dotted
from packager.package.declared import Declared
from packager.rendering.origins import Position
from packager.rendering.overlay import RenderedOverlay
from packager.verify import allowed_fields, credentials, objects, runnable, schema, security, taken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from packager.base.problems import Problem
    from packager.kubernetes.allowed.judge import Unlisted
    from packager.kubernetes.objects import Object
    from packager.kubernetes.podsecurity import Level

__all__ = ["Judged", "Task", "judge", "value_faults", "word_fault"]

_RIGHTS = (credentials.SECRET, credentials.ACCOUNT)
"""The words that permit pods to use Secrets, and service accounts, of their namespace."""

_PREFIXES = (LABEL, ANNOTATION)
"""The prefixes of the words that permit a label, or an annotation."""

_PRIORITY = "pod.spec.priorityClassName"
"""A field that the table permits, and that gives a job priority over the pods of others: only the site decides it."""


class Task(Value, frozen=True):
    """The task whose objects are judged."""

    name: str  # the name of the task, with which the names of its objects begin
    kinds: tuple[tuple[str, str], ...]  # the kinds that it may have
    secrets: frozenset[str]  # the names of Secrets that its pods may read, beside those of its objects
    allowed: frozenset[str]  # the words that permit more than the table of allowed fields
    level: Level  # the Pod Security level that its pods must not exceed


class Judged(Value, frozen=True):
    """A fault of an object."""

    message: str
    hint: str | None = None
    word: str | None = None  # the word that permits it; None if nothing does


class _Sources:
    """The files of an overlay; the objects of a task have none."""

    origins = ()
    image_entries = ()
    components = ()
    declared = Declared()
    start = Position("", 0, 0)


def _overlay(items: Sequence[Object]) -> RenderedOverlay:
    return RenderedOverlay("template", tuple(map(Manifest, items)), _Sources())  # type: ignore[arg-type]


def judge(rendered: Sequence[Object], completed: Sequence[Object], task: Task) -> Iterator[Judged]:
    """Yield the faults of the objects of a task with which it could reach others.

    Args:
        rendered: The objects as their author wrote them, whose fields, labels and annotations must be in the table.
        completed: The objects as they are applied, which must have the fields of their kinds and keep the level.
        task: The task.
    """
    overlay, written = _overlay(completed), _overlay(rendered)
    faults = [
        (f"{manifest}: {dotted(fault.location)}", fault)
        for manifest in overlay.manifests
        for fault in schema.faults(manifest.data, (schema.versions()[-1],))
    ]
    yield from (Judged(f"{place}: {fault.message}", fault.hint) for place, fault in faults)
    unknown = {place for place, fault in faults if fault.at_key}
    if credentials.ACCOUNT not in task.allowed:
        for pods in overlay.pods:
            yield from map(_judged, credentials.accounts(overlay, pods))
    yield from map(_judged, security.breaches(security.exceeded(overlay), task.level))
    if credentials.SECRET not in task.allowed:
        yield from _secrets(overlay, task)
    facts = Facts(config_maps=frozenset(written.names("ConfigMap")), names=(task.name,), is_template=True)
    for manifest in written.manifests:
        for unlisted in allowed_fields.judged(written, manifest, facts, task.allowed, task.kinds):
            place = f"{manifest}: {dotted(unlisted.location) or 'kind'}"
            if place not in unknown:  # nothing permits a misspelt field
                yield Judged(f"{place}: {_message(manifest, unlisted)}", word=unlisted.word)
    for pods in written.pods:
        location = (*pods.location, *_PRIORITY.split(".")[1:])
        if at(pods.manifest.data, location) not in (None, "") and not words.permits(task.allowed, _PRIORITY):
            yield Judged(f"{pods.manifest}: {dotted(location)}: only the site decides this", word=_PRIORITY)


def value_faults(completed: Sequence[Object]) -> Iterator[Judged]:
    """Yield the faults of objects that the API server would refuse, or that keep their pods from running."""
    overlay = _overlay(completed)
    kinds = frozenset(manifest.kind for manifest in overlay.manifests)
    yield from map(_judged, objects.check(overlay, kinds))
    yield from map(_judged, runnable.check(overlay))
    yield from map(_judged, objects.check_kinds(overlay))


def _judged(problem: Problem) -> Judged:
    return Judged(problem.message, problem.hint, problem.allow)


def _secrets(overlay: RenderedOverlay, task: Task) -> Iterator[Judged]:
    """Yield each Secret that pods read and that does not belong to the task."""
    own = {*task.secrets, *overlay.names("Secret")}
    for pods in overlay.pods:
        for noun, name, location in taken.fields(pods):
            if noun == taken.SECRET and name not in own:
                message = f"{pods.manifest}: {dotted(location)}: reads the Secret {show(name)} of the namespace"
                yield Judged(message, word=credentials.SECRET)


def _message(manifest: Manifest, unlisted: Unlisted) -> str:
    if unlisted.missing:
        return f"the template has no {unlisted.missing} {show(at(manifest.data, unlisted.location))}"
    return (
        "the queue of the project decides when its jobs start" if unlisted.options == ("queue",) else unlisted.message
    )


def word_fault(word: str, kinds: Mapping[str, tuple[str, str]], more: Collection[str]) -> tuple[str, str | None] | None:
    """Return the message and the hint for a word that permits nothing in objects of some kinds; None for a valid word.

    Args:
        word: The word.
        kinds: The version of the API and the kind, by the kind in lower case.
        more: Further prefixes of valid words.
    """
    prefixes = (*_PREFIXES, *more)
    expected = f"expected a field such as pod.spec.hostname, {', '.join(f'{one}KEY' for one in _PREFIXES)}"
    expected += "".join(f", {one}NAME" for one in more) + f", {' or '.join(_RIGHTS)}"
    prefix, colon, name = word.partition(":")
    if colon:
        if f"{prefix}:" not in prefixes:
            return f"{expected}, found {show(word)}", similar(prefix, (one.rstrip(":") for one in prefixes))
        is_known = is_key(name) and (f"{prefix}:" in _PREFIXES or "/" in name)
        return None if is_known else (f"{show(name)} is not the name of a {prefix}", None)
    kind, dot, path = word.partition(".")
    if not dot:
        return None if word in _RIGHTS else (f"{expected}, found {show(word)}", similar(word, _RIGHTS))
    if kind not in kinds:
        return f"a task creates no {show(kind)}", similar(kind, kinds)
    if not words.is_word(word):
        return f"{expected}, found {show(word)}", None
    return schema.unknown_step(*kinds[kind], path)

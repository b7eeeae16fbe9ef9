"""Checks the objects that a template renders for a job.

The checks of fields, names, references and pods are those of `packager.verify`.

Tests: service/registry/test_policy.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import show, similar
from packager.base.values import Value
from packager.kubernetes.allowed import words
from packager.kubernetes.allowed.values import Facts
from packager.kubernetes.manifest import Manifest, at, dotted
from packager.package.declared import Declared
from packager.rendering.origins import Position
from packager.rendering.overlay import RenderedOverlay
from packager.service.allow import COMPANIONS, WORKLOADS
from packager.verify import (
    allowed_fields,
    containers,
    credentials,
    names,
    objects,
    podspec,
    references,
    schema,
    security,
    taken,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.problems import Problem
    from packager.kubernetes.allowed.judge import Unlisted
    from packager.kubernetes.objects import Object
    from packager.kubernetes.podsecurity import Level

OWN_SECRETS = ("endpoints", "secrets")
"""The suffixes of the Secrets that the service creates, after the release."""

SECRETS_OWNER = "secrets-owner"
"""The suffix of the ConfigMap that owns the Secrets of a job, after the release."""

_METADATA = ("name", "labels", "annotations")
_VERSION = schema.versions()[-1]

_PRIORITY = "pod.spec.priorityClassName"
"""A field that the table permits, and that gives a job priority over the pods of others: only the site decides it."""


class JobOrigin(Value, frozen=True):
    """The job whose objects are checked."""

    release: str  # the name of the job
    allowed: frozenset[str] = frozenset()  # the entries of `allow`, which permit more than the table


class PolicyProblem(Value, frozen=True):
    """The reason for which an object of a job is refused."""

    message: str  # the expected and the found value
    hint: str | None = None  # the fix, if it is known
    kind: str = ""  # the kind of a problem of `packager.verify`; empty for other problems
    key: str = ""  # the last key of the place in the object; empty for other problems
    field: str = ""  # the object and the place of a field that no schema or table has; empty for other problems

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


def is_workload(item: Object) -> bool:
    """Whether an object has a kind that runs a task."""
    return _identity(item) in WORKLOADS


def of_objects(rendered: Sequence[Object], source: JobOrigin) -> list[PolicyProblem]:
    """Return the problems of objects that are independent of their fields: kinds, names and number."""
    refusals = [refusal for item in rendered for refusal in _of_object(item, source)]
    shown = [str(Manifest(item)) for item in rendered if is_workload(item)]
    if len(shown) != 1:
        known = [kind for _, kind in WORKLOADS]
        expected = f"expected one {', '.join(known[:-1])} or {known[-1]}"
        refusals.append(PolicyProblem(f"{expected}, found {', '.join(shown) or 'none'}"))
    return refusals


def of_fields(rendered: Sequence[Object], source: JobOrigin) -> Iterator[PolicyProblem]:
    """Yield a problem for each field, label and annotation that neither the table nor the site permits."""
    overlay = _overlay(rendered)
    facts = Facts(config_maps=frozenset(overlay.names("ConfigMap")), names=(source.release,), is_template=True)
    for manifest in overlay.manifests:
        for unlisted in allowed_fields.judged(overlay, manifest, facts, source.allowed, (*WORKLOADS, *COMPANIONS)):
            yield _of_unlisted(manifest, unlisted)
    for pods in overlay.pods:
        location = (*pods.location, *_PRIORITY.split(".")[1:])
        if at(pods.manifest.data, location) not in (None, "") and not words.permits(source.allowed, _PRIORITY):
            message = f"{pods.manifest}: {dotted(location)}: only the site decides this"
            yield PolicyProblem(message, _permitted_by(_PRIORITY), allowed_fields.FIELD)


def of_values(items: Sequence[Object], source: JobOrigin, level: Level) -> Iterator[PolicyProblem]:
    """Yield a problem for each value of completed objects that is invalid, refers to nothing, or exceeds the level."""
    overlay = _overlay(items)
    for manifest in overlay.manifests:
        for fault in schema.faults(manifest.data, (_VERSION,)):
            key = next((step for step in reversed(fault.location) if isinstance(step, str)), "")
            place = f"{manifest}: {dotted(fault.location)}"
            field = place if fault.at_key else ""
            yield PolicyProblem(f"{place}: {fault.message}", fault.hint, key=key, field=field)
    every_kind = frozenset(manifest.kind for manifest in overlay.manifests)
    for problem in (
        *objects.check(overlay, every_kind),
        *names.check(overlay),
        *references.check(overlay),
        *containers.check(overlay),
        *podspec.check(overlay),
        *objects.check_kinds(overlay),
        *credentials.check(overlay, source.allowed | {credentials.SECRET}),
        *security.breaches(security.exceeded(overlay), level),
    ):
        yield _of_problem(problem)
    if credentials.SECRET not in source.allowed:
        yield from _of_secrets(overlay, source)


def _identity(item: Object) -> tuple[object, object]:
    return item.get("apiVersion"), item.get("kind")


def _of_object(item: Object, source: JobOrigin) -> Iterator[PolicyProblem]:
    manifest = Manifest(item)
    if _identity(item) not in (*WORKLOADS, *COMPANIONS):
        known = [kind for _, kind in (*WORKLOADS, *COMPANIONS)]
        kind = f"{manifest.kind or 'an object without a kind'} ({manifest.api or 'no apiVersion'})"
        message = f"{kind} is not a kind that a task may create: expected {', '.join(known[:-1])} or {known[-1]}"
        yield PolicyProblem(message, similar(manifest.kind, known) if manifest.kind not in known else None)
        return
    if not isinstance(item.get("metadata"), dict):
        yield PolicyProblem(f"{manifest}: expected metadata with a name")
        return
    for key in item["metadata"]:
        if key not in _METADATA:
            yield _not_set(manifest, f"metadata.{key}")
    if item.get("status") is not None:
        yield _not_set(manifest, "status")
    release, name = source.release, item["metadata"].get("name")
    if name != release and not str(name).startswith(f"{release}-"):
        message = f"expected the release {release!r}, or a name that begins with '{release}-'"
        yield PolicyProblem(f"{manifest}: metadata.name: {message}")
    if name in (f"{release}-{role}" for role in OWN_SECRETS) and manifest.kind == "Secret":
        yield PolicyProblem(f"{manifest}: the service creates the Secret of this name")
    if name == f"{release}-{SECRETS_OWNER}" and manifest.kind == "ConfigMap":
        yield PolicyProblem(f"{manifest}: the service creates the ConfigMap of this name")
    yield from _of_companion(manifest)


def _not_set(manifest: Manifest, place: str) -> PolicyProblem:
    return PolicyProblem(f"{manifest}: {place}: a template must not set this field")


def _of_companion(manifest: Manifest) -> Iterator[PolicyProblem]:
    """Yield the problems of a companion object that no site can permit."""
    if manifest.kind == "Secret":
        if "stringData" in manifest.data:
            yield PolicyProblem(f"{manifest}: stringData: a template must not create a Secret from values")
        if manifest.data.get("type") not in (None, "Opaque"):
            yield PolicyProblem(f"{manifest}: type: expected Opaque")
    if manifest.kind == "Service":
        if manifest.spec.get("clusterIP") != "None":
            message = "expected None, because a task has headless Services only"
            yield PolicyProblem(f"{manifest}: spec.clusterIP: {message}")
        if manifest.spec.get("type") not in (None, "ClusterIP"):
            yield PolicyProblem(f"{manifest}: spec.type: expected ClusterIP")


def _of_unlisted(manifest: Manifest, unlisted: Unlisted) -> PolicyProblem:
    message = unlisted.message
    if unlisted.missing:
        message = f"the template has no {unlisted.missing} {show(at(manifest.data, unlisted.location))}"
    elif unlisted.options == ("queue",):
        message = "the queue of the project decides when its jobs start"
    place = f"{manifest}: {dotted(unlisted.location) or 'kind'}"
    hint = _permitted_by(unlisted.word) if unlisted.word else None
    key = next((step for step in reversed(unlisted.location) if isinstance(step, str)), "")
    return PolicyProblem(f"{place}: {message}", hint, allowed_fields.FIELD, key, place)


def _permitted_by(word: str) -> str:
    return f'allow: ["{word}"] in server.yaml permits it'


class _Sources:
    """The files of an overlay; the objects of a job have none."""

    origins = ()
    components = ()
    declared = Declared()
    start = Position("", 0, 0)


def _overlay(items: Sequence[Object]) -> RenderedOverlay:
    return RenderedOverlay("template", tuple(map(Manifest, items)), _Sources())  # type: ignore[arg-type]


def _of_problem(problem: Problem) -> PolicyProblem:
    hint = _permitted_by(problem.allow) if problem.allow else problem.hint
    return PolicyProblem(problem.message, hint, problem.kind)


def _of_secrets(overlay: RenderedOverlay, source: JobOrigin) -> Iterator[PolicyProblem]:
    """Yield a problem for each Secret that pods read and that does not belong to the job."""
    own = {*(f"{source.release}-{role}" for role in OWN_SECRETS), *overlay.names("Secret")}
    for pods in overlay.pods:
        for noun, name, location in taken.fields(pods):
            if noun == taken.SECRET and name not in own:
                message = f"{pods.manifest}: {dotted(location)}: reads the Secret {show(name)} of the namespace"
                yield PolicyProblem(message, _permitted_by(credentials.SECRET), credentials.SECRET)

"""Applies the policy of the site to rendered objects: refuses them, or adds labels and fields of Pod Security."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from packager.base.faults import Fault
from packager.base.names import is_key
from packager.base.problems import show, similar
from packager.base.values import Value, as_plain
from packager.cluster.doctor import demand
from packager.kubernetes.allowed import words
from packager.kubernetes.allowed.table import ANNOTATION, LABEL
from packager.kubernetes.allowed.values import Facts
from packager.kubernetes.manifest import Manifest, at, dotted, listing, mapping
from packager.kubernetes.podsecurity import Level
from packager.package.declared import Declared
from packager.rendering.origins import Position
from packager.rendering.overlay import RenderedOverlay
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
from packager.workloads import structures
from packager.workloads.kinds import kinds as workload_kinds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packager.kubernetes.allowed.judge import Unlisted
    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods


JOB = "mlpack.dev/job"
SERVER = "mlpack.dev/server"
PROJECT = "mlpack.dev/project"
APPLICATION = "mlpack.dev/application"
MANAGED_BY = "app.kubernetes.io/managed-by"
"""The labels that are added to each object."""

MANAGER = "mlpack"

_USER = 1000


class Site(Value, frozen=True):
    """The settings of the administrator for jobs."""

    server: str = "default"  # the name of the server in the labels of its objects
    level: Level = Level.restricted  # the Pod Security level of pods
    storage_classes: Mapping[str, str] = {}  # the storage class of this cluster for each storage class of templates
    # the selectors that replace each selector `key=value` of templates
    node_selectors: Mapping[str, Mapping[str, str]] = {}
    project: str | None = None  # the project of the jobs; None for a trial of a definition that belongs to all projects
    allowed: frozenset[str] = frozenset()  # the entries of `allow`, which permit more than the table of allowed fields


class Accepted(Value, frozen=True):
    """The result of the policy: the objects to apply, or the problems."""

    objects: tuple[Object, ...] = ()  # the objects to apply, the workload last; empty with problems
    problems: tuple[PolicyProblem, ...] = ()  # the reasons for refusing the objects
    remarks: tuple[str, ...] = ()  # warnings for the author of a definition, which are not problems

    @property
    def workload(self) -> Object:
        """The object that runs the task."""
        return self.objects[-1]


def accept(rendered: Sequence[Object], release: str, application: str, site: Site) -> Accepted:
    """Return the objects of a job for the cluster, or the problems for which the policy refuses them."""
    source = JobOrigin(release, site.allowed)
    problems = of_objects(rendered, source)
    if problems:
        return Accepted(problems=tuple(dict.fromkeys(problems)))
    copies: list[Object] = sorted(as_plain(rendered), key=is_workload)
    for item in copies:
        _map_to_site(item, site)
        _add_security(item, site.level)
        _add_labels(item, release, application, site)
    problems = list(of_values(copies, source, site.level))
    unknown = {problem.field for problem in problems if problem.field}  # a misspelt field, which no site permits
    problems += [problem for problem in of_fields(rendered, source) if problem.field not in unknown]
    return Accepted(problems=tuple(dict.fromkeys(problems))) if problems else Accepted(tuple(copies))


def secret(release: str, role: str, content: Mapping[str, str], application: str, site: Site) -> Object:
    """Return a Secret of a job: `endpoints` with the headers of dataset endpoints, or `secrets` with filled ones."""
    item = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{release}-{role}"},
        "type": "Opaque",
        "stringData": dict(content),
    }
    _add_labels(item, release, application, site)
    return item


def secrets_owner(release: str, application: str, site: Site) -> Object:
    """Return the empty ConfigMap that owns the Secrets of a job.

    The ConfigMap is created before the Secrets, so each Secret has its owner from the start and need not be changed or
    deleted by the server: when the ConfigMap is deleted, the cluster deletes the Secrets.
    """
    item: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{release}-{SECRETS_OWNER}"},
    }
    _add_labels(item, release, application, site)
    return item


def _map_to_site(item: Object, site: Site) -> None:
    if item["kind"] == "PersistentVolumeClaim":
        spec = mapping(item.get("spec"))
        name = spec.get("storageClassName")
        if isinstance(name, str) and name in site.storage_classes:
            spec["storageClassName"] = site.storage_classes[name]
    for pods in _pods(item):
        selectors = pods.spec.get("nodeSelector")
        if isinstance(selectors, dict):
            mapped: Object = {}
            for key, value in selectors.items():
                mapped |= site.node_selectors.get(f"{key}={value}", {key: value})
            pods.spec["nodeSelector"] = mapped


def _add_security(item: Object, level: Level) -> None:
    """Add the fields that Pod Security requires and the template does not set."""
    for pods in _pods(item):
        spec = pods.spec
        if not spec:
            continue
        if item["kind"] in ("Job", "Pod"):
            spec.setdefault("restartPolicy", "Never")
        spec.setdefault("automountServiceAccountToken", False)
        if level is not Level.restricted:
            continue
        of_pod = spec.setdefault("securityContext", {})
        if isinstance(of_pod, dict):
            of_pod.setdefault("runAsNonRoot", True)
            for key in ("runAsUser", "runAsGroup", "fsGroup"):
                of_pod.setdefault(key, _USER)
            of_pod.setdefault("seccompProfile", {"type": "RuntimeDefault"})
        for _, container in pods.containers():
            context = container.setdefault("securityContext", {})
            if isinstance(context, dict):
                context.setdefault("allowPrivilegeEscalation", False)
                capabilities = context.setdefault("capabilities", {})
                if isinstance(capabilities, dict):
                    capabilities.setdefault("drop", ["ALL"])


def _add_labels(item: Object, release: str, application: str, site: Site) -> None:
    labels = {MANAGED_BY: MANAGER, SERVER: site.server, JOB: release}
    if site.project is not None:
        labels[PROJECT] = site.project
    holders = [item["metadata"]]
    for pods in _pods(item):
        template = at(item, pods.location)
        if pods.location and isinstance(template, dict):
            holders.append(template.setdefault("metadata", {}))
    if item["kind"] == "Service" and isinstance(selector := at(item, ("spec", "selector")), dict) and selector:
        selector[JOB] = release  # the Service selects only pods of the job
    for holder in holders:
        if isinstance(holder, dict) and isinstance(holder.setdefault("labels", {}), dict):
            holder["labels"].update(labels)
            if application:
                holder["labels"][APPLICATION] = application


def storage_classes(items: Sequence[Object]) -> list[str]:
    """Return the storage classes that objects name."""
    specs = (mapping(item.get("spec")) for item in items if item.get("kind") == "PersistentVolumeClaim")
    return sorted({str(spec["storageClassName"]) for spec in specs if spec.get("storageClassName")})


def node_selectors(items: Sequence[Object]) -> list[dict[str, str]]:
    """Return the node selectors of all pods that have one."""
    selectors = [mapping(pods.spec.get("nodeSelector")) for item in items for pods in _pods(item)]
    return [selector for selector in selectors if selector]


def _pods(item: Object) -> tuple[Pods, ...]:
    return structures.pods(Manifest(item))


_GPUS = re.compile(
    r"(nvidia\.com/(gpu|mig-[a-z0-9.+-]+)(\.shared)?|amd\.com/(gpu|[scdq]px_nps[0-9])"
    r"|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron(core|device)?"
    r"|huawei\.com/Ascend[0-9A-Z]+|iluvatar\.(ai|com)/gpu|cambricon\.com/mlu|metax-tech\.com/gpu|mthreads\.com/gpu)"
)
"""Resources whose unit is a GPU, or an exclusive part of one."""

_OTHERS = re.compile(
    r"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|rdma/[a-z0-9_.-]+|vpc\.amazonaws\.com/efa"
    r"|networking\.gke\.io\.networks/[a-z0-9.-]+"
)
"""Resources that are not GPUs: those of Kubernetes itself, and network cards."""

_MOST = 2**31 - 1
"""The maximum count in the database."""


class Gpus(Value, frozen=True):
    """The GPUs that a job uses."""

    count: int  # the number of GPUs of all pods; a part of a GPU, such as a MIG device, counts as one
    uncounted: tuple[str, ...]  # the other resources and the device claims, which may be GPUs and cannot be counted


def count_gpus(items: Iterable[Object], others: Collection[str] = ()) -> Gpus:
    """Return the GPUs that the pods of objects use."""
    count = 0
    uncounted: list[str] = []
    for item in items:
        for pods in _pods(item):
            amounts = demand.of_pod(pods.spec, "requests")
            limits = demand.of_pod(pods.spec, "limits")
            for resource in dict.fromkeys((*amounts, *limits)):
                if _GPUS.fullmatch(resource):
                    most = max(amounts.get(resource, 0), limits.get(resource, 0))
                    count += pods.count * max(math.ceil(most), 0)
                elif resource not in others and not _OTHERS.fullmatch(resource):
                    uncounted.append(resource)
            # Device claims (dynamic resource allocation), whose device class decides the devices.
            claims = (mapping(entry).get("name") for entry in listing(pods.spec.get("resourceClaims")))
            uncounted += (f"the resource claim {claim}" for claim in claims)
    return Gpus(min(count, _MOST), tuple(dict.fromkeys(uncounted)))


WORKLOADS = tuple(
    (structure.api, kind) for kind, structure in structures.structures().items() if not workload_kinds()[kind].serves
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
        hint = _permitted_by(problem.allow) if problem.allow else problem.hint
        yield PolicyProblem(problem.message, hint, problem.kind)
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


def _of_secrets(overlay: RenderedOverlay, source: JobOrigin) -> Iterator[PolicyProblem]:
    """Yield a problem for each Secret that pods read and that does not belong to the job."""
    own = {*(f"{source.release}-{role}" for role in OWN_SECRETS), *overlay.names("Secret")}
    for pods in overlay.pods:
        for noun, name, location in taken.fields(pods):
            if noun == taken.SECRET and name not in own:
                message = f"{pods.manifest}: {dotted(location)}: reads the Secret {show(name)} of the namespace"
                yield PolicyProblem(message, _permitted_by(credentials.SECRET), credentials.SECRET)

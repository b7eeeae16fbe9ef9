"""Applies the policy of the site to rendered objects: refuses them, or adds labels and fields of Pod Security."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from packager.base import units
from packager.base.problems import Fault, similar
from packager.base.values import Value, as_plain
from packager.kubernetes.manifest import Manifest, at, listing, mapping
from packager.kubernetes.podsecurity import Level
from packager.service.failures import Complaint
from packager.verify.judging import Task, judge, value_faults, word_fault
from packager.workloads import structures
from packager.workloads.kinds import kinds as workload_kinds

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.workloads.pods import Pods


JOB = "mlpack.dev/job"
SERVER = "mlpack.dev/server"
PROJECT = "mlpack.dev/project"
APPLICATION = "mlpack.dev/application"
MANAGED_BY = "app.kubernetes.io/managed-by"
"""The labels that are added to each object."""

MANAGER = "mlpack"


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
    """The result of the policy: the objects to apply, or the complaints."""

    objects: Sequence[Object] = ()  # the objects to apply, the workload last; empty with complaints
    complaints: Sequence[Complaint] = ()  # the reasons for refusing the objects
    remarks: Sequence[str] = ()  # warnings for the author of a definition

    @property
    def workload(self) -> Object:
        """The object that runs the task."""
        return self.objects[-1]


def accept(
    rendered: Sequence[Object], release: str, application: str, site: Site, *, is_example: bool = False
) -> Accepted:
    """Return the objects of a job for the cluster, or the complaints for which the policy refuses them.

    Only the objects of an example are judged for what the API server refuses itself: their author learns it at once.
    """
    if complaints := dict.fromkeys(_of_objects(rendered, release)):
        return Accepted(complaints=tuple(complaints))
    copies: list[Object] = sorted(as_plain(rendered), key=_is_workload)
    for item in copies:
        _map_to_site(item, site)
        _add_security(item, site.level)
        _add_labels(item, release, application, site)
    own = frozenset(f"{release}-{role}" for role in OWN_SECRETS)
    task = Task(release, (*WORKLOADS, *COMPANIONS), own, site.allowed, site.level)
    faults = itertools.chain(judge(rendered, copies, task), value_faults(copies) if is_example else ())
    complaints = dict.fromkeys(
        Complaint("", found.message, f'allow: ["{found.word}"] in server.yaml permits it' if found.word else found.hint)
        for found in faults
    )
    return Accepted(complaints=tuple(complaints)) if complaints else Accepted(tuple(copies))


def with_secrets(
    objects: Sequence[Object], release: str, contents: Mapping[str, Mapping[str, str]], site: Site
) -> list[Object]:
    """Return the objects of a job after the Secrets that the service creates, and after the owner of all Secrets.

    The owner is an empty ConfigMap, which is created before the Secrets: each has its owner from the start, and need
    not be changed or deleted by the server. When the ConfigMap is deleted, the cluster deletes the Secrets.
    """
    if not contents and all(item["kind"] != "Secret" for item in objects):
        return list(objects)
    kinds: dict[str, Object] = {
        SECRETS_OWNER: {"kind": "ConfigMap"},
        **{role: {"kind": "Secret", "type": "Opaque", "stringData": dict(texts)} for role, texts in contents.items()},
    }
    application = str(mapping(objects[-1]["metadata"]["labels"]).get(APPLICATION) or "")
    added: list[Object] = [
        {"apiVersion": "v1", "metadata": {"name": f"{release}-{role}"}, **content} for role, content in kinds.items()
    ]
    for item in added:
        _add_labels(item, release, application, site)
    return [*added, *objects]


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


_POD: Object = {
    "runAsNonRoot": True,
    **dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), 1000),
    "seccompProfile": {"type": "RuntimeDefault"},
}
_CONTAINER: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The security contexts that the level "restricted" requires."""


def _add_security(item: Object, level: Level) -> None:
    """Add the fields that Pod Security requires and the template does not set."""
    is_restricted = level is Level.restricted
    for pods in _pods(item):
        if item["kind"] in ("Job", "Pod") and pods.spec:
            pods.spec.setdefault("restartPolicy", "Never")
        _add(pods.spec, {"automountServiceAccountToken": False, **({"securityContext": _POD} if is_restricted else {})})
        for _, container in pods.containers() if is_restricted else ():
            _add(container, {"securityContext": _CONTAINER})


def _add(holder: Object, fields: Object) -> None:
    """Add the fields, and those below them, that a mapping does not have."""
    for key, value in fields.items():
        held = holder.setdefault(key, {} if isinstance(value, dict) else copy.copy(value))
        if isinstance(value, dict) and isinstance(held, dict):
            _add(held, value)


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
    for pods in (pods for item in items for pods in _pods(item)):
        running: Counter[str] = Counter()
        most: Counter[str] = Counter()  # init containers run one after the other, beside the sidecars before them
        for location, container in pods.containers():
            asked: Counter[str] = Counter()
            resources = mapping(container.get("resources"))
            for resource, amount in (mapping(resources.get("requests")) | mapping(resources.get("limits"))).items():
                if not _GPUS.fullmatch(resource):
                    uncounted += [] if resource in others or _OTHERS.fullmatch(resource) else [resource]
                    continue
                try:
                    asked[resource] = math.ceil(units.parse_quantity(str(amount)))
                except ValueError:
                    uncounted.append(resource)
            if location[-2] == "initContainers" and container.get("restartPolicy") != "Always":
                most |= running + asked
            else:
                running += asked
        count += pods.count * (most | running).total()
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

_KINDS = {kind.lower(): (api, kind) for api, kind in (*WORKLOADS, *COMPANIONS)}


def faults(allowed: Sequence[str]) -> Iterator[Fault]:
    """Yield the faults of the entries of `allow`, each with the index of its entry."""
    for index, word in enumerate(allowed):
        if message := word_fault(word, _KINDS, (RESOURCE,)):
            yield Fault((index,), *message)


def resources(allowed: Sequence[str] | frozenset[str]) -> frozenset[str]:
    """Return the resources that entries of `allow` declare not to be GPUs."""
    return frozenset(word.removeprefix(RESOURCE) for word in allowed if word.startswith(RESOURCE))


OWN_SECRETS = ("endpoints", "secrets")
"""The suffixes of the Secrets that the service creates, after the release."""

SECRETS_OWNER = "secrets-owner"
"""The suffix of the ConfigMap that owns the Secrets of a job, after the release."""

_METADATA = ("name", "labels", "annotations")


def _is_workload(item: Object) -> bool:
    return (item.get("apiVersion"), item.get("kind")) in WORKLOADS


def _of_objects(rendered: Sequence[Object], release: str) -> Iterator[Complaint]:
    """Yield the complaints about objects that are independent of their fields: kinds, names and number."""
    known = (*WORKLOADS, *COMPANIONS)
    for item in rendered:
        manifest = Manifest(item)
        if (item.get("apiVersion"), item.get("kind")) in known:
            messages = (*_of_metadata(manifest, release), *_of_companion(manifest))
            yield from (Complaint("", f"{manifest}: {message}") for message in messages)
            continue
        kinds = [kind for _, kind in known]
        shown = f"{manifest.kind or 'an object without a kind'} ({manifest.api or 'no apiVersion'})"
        message = f"{shown} is not a kind that a task may create: expected {', '.join(kinds[:-1])} or {kinds[-1]}"
        yield Complaint("", message, similar(manifest.kind, kinds) if manifest.kind not in kinds else None)
    workloads = [str(Manifest(item)) for item in rendered if _is_workload(item)]
    if len(workloads) != 1:
        *others, last = [kind for _, kind in WORKLOADS]
        expected = f"expected one {', '.join(others)} or {last}"
        yield Complaint("", f"{expected}, found {', '.join(workloads) or 'none'}")


def _of_metadata(manifest: Manifest, release: str) -> Iterator[str]:
    """Yield the messages about the metadata of an object that no site can permit."""
    metadata = manifest.data.get("metadata")
    if not isinstance(metadata, dict):
        yield "expected metadata with a name"
        return
    places = [f"metadata.{key}" for key in metadata if key not in _METADATA]
    places += ["status"] if manifest.data.get("status") is not None else []
    yield from (f"{place}: a template must not set this field" for place in places)
    name = str(metadata.get("name"))
    if name != release and not re.fullmatch(f"{release}-[a-z0-9.-]*", name):  # it becomes a part of a path of the API
        yield f"metadata.name: expected the release {release!r}, or a name that begins with '{release}-'"
    own = {"Secret": OWN_SECRETS, "ConfigMap": (SECRETS_OWNER,)}.get(manifest.kind, ())
    if name in (f"{release}-{role}" for role in own):
        yield f"the service creates the {manifest.kind} of this name"


def _of_companion(manifest: Manifest) -> Iterator[str]:
    """Yield the messages about the content of a companion object that no site can permit."""
    if manifest.kind == "Secret":
        if "stringData" in manifest.data:
            yield "stringData: a template must not create a Secret from values"
        if manifest.data.get("type") not in (None, "Opaque"):
            yield "type: expected Opaque"
    if manifest.kind == "Service":
        if manifest.spec.get("clusterIP") != "None":
            yield "spec.clusterIP: expected None, because a task has headless Services only"
        if manifest.spec.get("type") not in (None, "ClusterIP"):
            yield "spec.type: expected ClusterIP"

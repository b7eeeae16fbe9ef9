"""Applies the policy of the site to rendered objects: refuses them, or adds labels and fields of Pod Security."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value, as_plain
from packager.kubernetes.manifest import Manifest, at, mapping
from packager.kubernetes.podsecurity import Level
from packager.service.registry import refusals
from packager.service.registry.refusals import SECRETS_OWNER, JobOrigin, is_workload
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.kubernetes.objects import Object
    from packager.service.registry.refusals import PolicyProblem
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
    """Return the objects of a job for the cluster, or the problems for which the policy refuses them.

    Args:
        rendered: The objects from the template.
        release: The name of the job.
        application: The application of the job; empty for none.
        site: The settings of the administrator.
    """
    source = JobOrigin(release, site.allowed)
    problems = refusals.of_objects(rendered, source)
    if problems:
        return Accepted(problems=tuple(dict.fromkeys(problems)))
    copies: list[Object] = sorted(as_plain(rendered), key=is_workload)
    for item in copies:
        _map_to_site(item, site)
        _add_security(item, site.level)
        _add_labels(item, release, application, site)
    problems = list(refusals.of_values(copies, source, site.level))
    unknown = {problem.field for problem in problems if problem.field}  # a misspelt field, which no site permits
    problems += [problem for problem in refusals.of_fields(rendered, source) if problem.field not in unknown]
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

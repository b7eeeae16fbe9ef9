"""Applies the objects of a job, and refuses jobs that name objects of other projects in their namespace.

A Secret is created, and never applied: with the right to apply or to delete Secrets, a client can read them. The API
server returns the whole Secret, also for a dry run that changes nothing or deletes dependents of the Secret first.

Tests: service/jobs/test_references.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.values import Value
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import labels, name, uid
from packager.service.access.permissions import shared_namespaces
from packager.service.registry import template_values
from packager.service.registry.policy import JOB, PROJECT, SECRETS_OWNER, SERVER
from packager.workloads import kueue, structures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.access.permissions import Project
    from packager.service.jobs.kube import Cluster
    from packager.service.sealing import Sealer
    from packager.service.store.models import StoredJob


async def try_objects(cluster: Cluster, items: Sequence[Object], namespace: str) -> None:
    """Check objects with a dry run on the API server. Raises RefusedError or UnreachableError."""
    for item in items:
        if item["kind"] == "Secret":
            await cluster.create(item, namespace, dry_run=True)
        else:
            await cluster.apply(item, namespace, dry_run=True)


async def apply_objects(cluster: Cluster, items: Sequence[Object], namespace: str) -> None:
    """Apply the objects of a job, the workload last, and make it the owner of the others, except claims and Secrets.

    Objects that were applied before a restart of the server stay unchanged. Raises RefusedError or UnreachableError.
    """
    *companions, workload = items
    secrets_owner: list[Object] = []
    for item in companions:
        if item["kind"] == "Secret":
            await cluster.create(_owned(item, secrets_owner), namespace)
        else:
            applied = await cluster.apply(item, namespace)
            if item["kind"] == "ConfigMap" and name(item) == f"{labels(item)[JOB]}-{SECRETS_OWNER}":
                secrets_owner = [_reference(applied)]
    owner = [_reference(await _apply_workload(cluster, workload, namespace))]
    for item in companions:
        if item["kind"] not in ("PersistentVolumeClaim", "Secret"):
            await cluster.apply(_owned(item, owner), namespace)


async def _apply_workload(cluster: Cluster, workload: Object, namespace: str) -> Object:
    if kueue.of(workload):  # Kueue decides whether an applied workload is suspended
        current = await cluster.get(workload["kind"], name(workload), namespace)
        if current is not None:
            return current
    return await cluster.apply(workload, namespace)


def _reference(owner: Object) -> Object:
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner)}


def _owned(item: Object, owners: Sequence[Object]) -> Object:
    """Return an object with owners, with which it is deleted; without owners, return it unchanged."""
    return {**item, "metadata": {**item["metadata"], "ownerReferences": list(owners)}} if owners else item


_CLAIM, _CONFIG, _SECRET = "PersistentVolumeClaim", "ConfigMap", "Secret"

_FIELDS = {
    "persistentVolumeClaim": (_CLAIM, "claimName"),
    "configMap": (_CONFIG, "name"),
    "configMapRef": (_CONFIG, "name"),
    "configMapKeyRef": (_CONFIG, "name"),
    "secret": (_SECRET, "name"),
    "secretRef": (_SECRET, "name"),
    "secretKeyRef": (_SECRET, "name"),
    "nodePublishSecretRef": (_SECRET, "name"),
}
"""The fields of a pod that name an object of its namespace, and the key with the name."""


class ObjectReference(Value, frozen=True):
    """An object of the namespace that the pods of a job use and the job does not create."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"the {self.kind} {self.name}"


def of_objects(items: Sequence[Object]) -> list[ObjectReference]:
    """Return the references of pods to objects that are not in `items`, each once, in their order."""
    own = {(item["kind"], item["metadata"]["name"]) for item in items}
    every = [reference for item in items for pods in structures.pods(Manifest(item)) for reference in _named(pods.spec)]
    return [reference for reference in dict.fromkeys(every) if (reference.kind, reference.name) not in own]


def _named(value: object) -> Iterator[ObjectReference]:
    """Yield the references in a part of a pod, at every depth."""
    if isinstance(value, list):
        for item in value:
            yield from _named(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            kind, name_key = _FIELDS.get(key, ("", ""))
            named = [(kind, mapping(item).get(name_key))]
            if key == "secret":
                named.append((_SECRET, mapping(item).get("secretName")))
            elif key == "imagePullSecrets":
                named = [(_SECRET, mapping(entry).get("name")) for entry in listing(item)]
            elif key in ("dataSource", "dataSourceRef"):
                named = [(str(mapping(item).get("kind")), mapping(item).get("name"))]
            yield from (ObjectReference(kind, name) for kind, name in named if kind and isinstance(name, str))
            yield from _named(item)


class References:
    """Decides whether the jobs of a project may use an object of their namespace."""

    def __init__(self, cluster: Cluster, server: str, projects: Mapping[str, Project]) -> None:
        self._cluster = cluster
        self._server = server
        self._shared = shared_namespaces(projects)

    async def check(self, items: Sequence[Object], project: Project) -> tuple[list[str], list[str]]:
        """Return the messages about references that are refused, and about references to missing objects.

        Raises RefusedError or UnreachableError.
        """
        refused, missing = [], []
        for reference in of_objects(items):
            if reference.kind == _SECRET:  # the server may not read Secrets
                if project.namespace in self._shared:
                    refused.append(f"{reference} may belong to another project of the namespace {project.namespace}")
                continue
            if reference.kind not in (_CLAIM, _CONFIG):
                refused.append(f"{reference} cannot be used: the server does not know whose it is")
                continue
            item = await self._cluster.get(reference.kind, reference.name, project.namespace)
            if item is None:
                missing.append(f"{reference} does not exist in the namespace {project.namespace}")
            elif not await self._is_of(project, item):
                refused.append(f"{reference} belongs to another project")
        return refused, missing

    async def _is_of(self, project: Project, item: Object) -> bool:
        """Whether the jobs of a project may use an object: one of the project, or one that no server has created."""
        item_labels = labels(item)
        if item_labels.get(SERVER, self._server) != self._server:
            return False
        return item_labels.get(PROJECT) == project.name if item_labels.keys() & {JOB, PROJECT} else True


ENDPOINTS = "dataset.json"
"""The key in the Secret `<release>-endpoints`."""

SECRETS = "secrets"
"""The suffix of the Secret with the filled secrets, and their key among the sealed values."""


def secrets(filled: Mapping[str, Json], places: Iterable[Sequence[str]]) -> dict[str, Json]:
    """Return the headers, by the index of their endpoint, and the secrets in filled values, to encrypt."""
    endpoints = filled.get("endpoints")
    headers = {
        str(index): item["headers"]
        for index, item in enumerate(endpoints if isinstance(endpoints, list) else ())
        if isinstance(item, dict) and isinstance(item.get("headers"), dict)
    }
    own: dict[str, Any] = {".".join(place): template_values.value_at(filled, place) for place in places}
    own = {place: value for place, value in own.items() if value is not None}
    return {**headers, **({SECRETS: own} if own else {})}


def filled_values(job: StoredJob, sealer: Sealer) -> dict[str, Json]:
    """Return the filled values of a job with headers and secrets. Raises ToolError if they cannot be decrypted."""
    sealed = sealer.open(job.secrets, job.release)
    filled = template_values.replaced_headers(job.values, lambda index, _: sealed[str(index)])
    for place, value in mapping(sealed.get(SECRETS)).items():
        filled = template_values.put(filled, place.split("."), value)
    return filled


def secret_contents(filled: Mapping[str, Json], sealed: Mapping[str, Json]) -> dict[str, dict[str, str]]:
    """Return the content of each Secret that the service makes for a job, by its suffix."""
    contents: dict[str, dict[str, str]] = {}
    if endpoints := template_values.dataset_headers(filled):
        contents["endpoints"] = {ENDPOINTS: jsonio.compact(endpoints)}
    if own := mapping(sealed.get(SECRETS)):
        contents[SECRETS] = {place: str(value) for place, value in own.items()}
    return contents


def objects(job: StoredJob, sealer: Sealer) -> list[Object]:
    """Return the objects of a job for the cluster, the workload last. Raises ToolError if decryption fails."""
    items = job.objects
    if not any(item["kind"] == "Secret" for item in items):
        return items
    contents = secret_contents(filled_values(job, sealer), sealer.open(job.secrets, job.release))
    own = {f"{job.release}-{role}": content for role, content in contents.items()}
    return [
        {**item, "stringData": own[item["metadata"]["name"]]}
        if item["kind"] == "Secret" and item["metadata"]["name"] in own
        else item
        for item in items
    ]


def redacted(items: Sequence[Object]) -> list[Object]:
    """Return objects for callers, with *** in place of each value of a Secret."""
    return [
        {
            key: dict.fromkeys(value, template_values.MASK)
            if key in ("data", "stringData") and isinstance(value, dict)
            else value
            for key, value in item.items()
        }
        if item["kind"] == "Secret"
        else item
        for item in items
    ]

"""Applies the objects of a job, and makes the Secrets among them.

A Secret is created, and never applied: with the right to apply or to delete Secrets, a client can read them. The API
server returns the whole Secret, also for a dry run that changes nothing or deletes dependents of the Secret first.

Tests: service/api/test_jobs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import labels, name, uid
from packager.service.registry import template_values
from packager.service.registry.policy import JOB, SECRETS_OWNER
from packager.workloads import kueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
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

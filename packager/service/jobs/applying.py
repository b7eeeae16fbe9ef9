"""Applies the objects of a job.

A Secret is created, and never applied: with the right to apply or to delete Secrets, a client can read them. The API
server returns the whole Secret, also for a dry run that changes nothing or deletes dependents of the Secret first.

Tests: service/api/test_jobs.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.objects import labels, name, uid
from packager.service.registry.policy import JOB
from packager.service.registry.refusals import SECRETS_OWNER
from packager.workloads import kueue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.kubernetes.objects import Object
    from packager.service.jobs.kube import Cluster


async def try_objects(cluster: Cluster, items: Sequence[Object], namespace: str) -> None:
    """Check objects with a dry run on the API server. Raises RefusedError or UnreachableError."""
    for item in items:
        if item["kind"] == "Secret":
            await cluster.create(item, namespace, dry_run=True)
        else:
            await cluster.apply(item, namespace, dry_run=True)


async def apply_objects(cluster: Cluster, items: Sequence[Object], namespace: str) -> None:
    """Apply the objects of a job, the workload last, and make it the owner of the others, except claims and Secrets.

    Objects that were applied before a restart of the server stay unchanged.

    Raises:
        RefusedError: The API server does not accept an object.
        UnreachableError: The cluster does not answer.
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

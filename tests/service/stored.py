"""A job for tests of the database, and functions that store jobs and their changes without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.values import replace
from packager.service.store.models import StoredDefinition, StoredJob, StoredTemplate
from packager.service.store.quota import Quota

if TYPE_CHECKING:
    from packager.service.store.store import Store

JOB = StoredJob(
    release="demo-1",
    definition="d",
    definition_revision=1,
    template="t",
    template_revision=1,
    application="demo",
    creator="ada",
    namespace="n",
    kind="Job",
    filled="{}",
    secrets=b"\x00\xff",
    manifests="[]",
)


def add_job(store: Store, job: StoredJob, *, limits: Quota | None = None) -> None:
    """Store a job, and the template and the definition of JOB if they do not exist; raise the error of the store."""
    if store.revisions.find(StoredTemplate, "t") is None:
        store.revisions.add(StoredTemplate(name="t", body="{}", author="ada"))
        store.revisions.add(StoredDefinition(name="d", body="{}", author="ada", template="t"))
    store.add_job(job, "ada", limits or Quota())


def change_job(store: Store, release: str, **changes: Any) -> bool:
    """Store a new state of a job, and return whether this is an event."""
    job = store.job(release)
    assert job is not None
    return store.change_job(replace(job, **changes))

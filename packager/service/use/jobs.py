"""The use cases of jobs: create, run again, list, cancel and delete jobs."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from packager.base import jsonio, units
from packager.base.problems import show
from packager.base.values import replace
from packager.kubernetes.manifest import mapping
from packager.service.access import permissions
from packager.service.failures import Failure
from packager.service.jobs import apply
from packager.service.jobs.make import Filled
from packager.service.store.models import LONGEST_TITLE, as_text
from packager.service.store.store import FINAL, STATUSES, JobQuery
from packager.service.use import answers
from packager.service.use.answers import Callback, Job, JobPreview, Page
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.base.values import Json
    from packager.diagnosis.curves.points import Curve
    from packager.kubernetes.objects import Object
    from packager.service.access.tokens import Caller
    from packager.service.jobs.logs import LogReader
    from packager.service.jobs.make import Tasks
    from packager.service.store.models import RequestKey, StoredJob


class Jobs:
    """The use cases of jobs.

    Each raises Failure if the caller has no permission. A job in whose project the caller has no role is not found.
    """

    def __init__(self, tasks: Tasks, reader: LogReader) -> None:
        self._tasks = tasks
        self._store = tasks.catalog.store
        self._reader = reader

    async def create(self, caller: Caller, filled: Mapping[str, Json], key: RequestKey | None = None) -> Job:
        """Create a job from filled values, which may name its `project`; see `Tasks.create`. Raises Failure."""
        permissions.check_role(caller, "user")
        project = permissions.project_of_job(caller, filled.get("project"), self._tasks.projects)
        return await self._job(caller, await self._tasks.create(Filled(_without_project(filled), caller, project), key))

    async def preview(self, caller: Caller, filled: Mapping[str, Json]) -> JobPreview:
        """Return the manifests that `create` would create. Raises Failure."""
        permissions.check_role(caller, "user")
        project = permissions.project_of_job(caller, filled.get("project"), self._tasks.projects)
        prepared = await self._tasks.prepare(Filled(_without_project(filled), caller, project), dry_run=True)
        return JobPreview(
            release=prepared.job.release,
            manifests=apply.redacted(prepared.objects),
            warnings=[prepared.warning] if prepared.warning else [],
        )

    async def rerun(self, caller: Caller, release: str, *, is_pinned: bool, key: RequestKey | None = None) -> Job:
        """Create a job from the values of a job that the caller owns, or in whose project they act for others.

        Raises Failure.
        """
        job = await self._own(caller, release, "run jobs of others again")
        await asyncio.to_thread(self._check_knows_secrets, caller, job)
        project = permissions.project_of_job(caller, job.project, self._tasks.projects)
        filled = await asyncio.to_thread(apply.filled_values, job, self._tasks.sealer)
        revisions = (job.definition_revision, job.template_revision) if is_pinned else None
        creator = str(filled.get("creator") or caller.name)  # as of every new job
        owner = job.owner if creator != caller.name else None  # the owner of the other job
        sealed = frozenset(mapping(self._tasks.sealer.open(job.secrets, job.release).get(apply.SECRETS)))
        request = Filled(filled, caller, project, revisions, owner, sealed)
        return await self._job(caller, await self._tasks.create(request, key))

    def _check_knows_secrets(self, caller: Caller, job: StoredJob) -> None:
        """Refuse to give the secrets of a job to callers other than its owner and the person who filled them in.

        Those who act for others may change the definition, and so send the secrets of a copy to an image of their own.
        """
        if caller.is_trusted or not self._tasks.sealer.open(job.secrets, job.release):
            return
        if caller.key not in (job.owner, job.requester):
            detail = f"the job has headers or secrets of others: only {job.creator} runs it again"
            raise Failure("forbidden", detail)

    async def search(self, caller: Caller, query: JobQuery) -> Page[Job]:
        """Return a page of the jobs that the caller may see, the newest first. Raises Failure."""
        permissions.check_role(caller, "viewer")
        if query.status is not None and query.status not in STATUSES:
            raise Failure("invalid-query", f"status: expected {', '.join(STATUSES)}; found {show(query.status)}")
        times = {key: _moment(key, getattr(query, key)) for key in ("since", "until", "ended_since")}
        after, visible = _decoded(query.cursor), permissions.projects_of(caller, "viewer")

        def page() -> Page[Job]:  # 200 jobs would block the event loop for long
            found = self._store.jobs(replace(query, limit=query.limit + 1, **times), visible, after)
            shown = found[: query.limit]
            ending = json.dumps([shown[-1].created, shown[-1].release]).encode() if len(found) > query.limit else b""
            following = base64.urlsafe_b64encode(ending).decode().rstrip("=") or None
            return Page(items=answers.jobs(caller, shown, self._store, self._tasks.projects), next=following)

        return await self._tasks.work.run(Owner(caller.key), page)

    async def last_values(self, jobs: Sequence[Job]) -> dict[str, dict[str, float | None]]:
        """Return the last value of each metric of jobs that the caller sees, by release and name."""
        return await self._reader.last_values([job.release for job in jobs])

    async def choices(self, caller: Caller) -> dict[str, list[str]]:
        """Return the values by which the jobs that the caller may see can be filtered. Raises Failure."""
        permissions.check_role(caller, "viewer")
        return await asyncio.to_thread(self._store.choices, permissions.projects_of(caller, "viewer"))

    async def rename(self, caller: Caller, release: str, title: str) -> Job:
        """Change the title of a job; an empty one stands for the description in its values. Raises Failure."""
        await self._own(caller, release, "change jobs of others")
        if len(title) > LONGEST_TITLE:
            raise Failure("invalid-body", f"title: expected at most {LONGEST_TITLE} characters")
        await asyncio.to_thread(self._store.rename_job, release, title.strip() or None)
        return await self.job(caller, release)

    async def job(self, caller: Caller, release: str) -> Job:
        """Return a job. Raises Failure."""
        return await self._job(caller, await self._visible(caller, release))

    async def manifests(self, caller: Caller, release: str) -> list[Object]:
        """Return the applied objects of a job, without secrets. Raises Failure."""
        job = await self._visible(caller, release)
        return apply.redacted(job.objects)

    async def curves(self, caller: Caller, release: str) -> Sequence[Curve]:
        """Return the curves of a job. Raises Failure."""
        return await self._reader.curves(await self._visible(caller, release))

    async def cancel(self, caller: Caller, release: str) -> Job:
        """Stop a job; its record and its claims stay. Raises Failure."""
        await self._own(caller, release, "change jobs of others")
        job = await self._tasks.want(release, "cancel", caller)
        if job.status in FINAL:
            raise Failure("conflict", f"the job has ended: it is {job.status}")
        return await self._job(caller, job)

    async def delete(self, caller: Caller, release: str, storage: str = "keep") -> Job:
        """Stop a job, and delete its objects and its record. Raises Failure."""
        permissions.check_role(caller, "user")
        goals: dict[str, Literal["delete", "delete-storage"]] = {"keep": "delete", "delete": "delete-storage"}
        if storage not in goals:
            raise Failure("invalid-query", "storage: expected keep or delete")
        await self._own(caller, release, "change jobs of others")
        return await self._job(caller, await self._tasks.want(release, goals[storage], caller))

    async def callbacks(self, caller: Caller, release: str) -> Page[Callback]:
        """Return the callbacks of a job, in their order. Raises Failure."""
        await self._own(caller, release, "see the callbacks of others")
        deliveries = await asyncio.to_thread(self._store.outbox.of_job, release)
        return Page(items=[answers.copied(Callback, delivery) for delivery in deliveries])

    async def _job(self, caller: Caller, job: StoredJob) -> Job:
        return (await asyncio.to_thread(answers.jobs, caller, [job], self._store, self._tasks.projects))[0]

    async def _visible(self, caller: Caller, release: str) -> StoredJob:
        """Return a job that the caller may see. Raises Failure."""
        return await asyncio.to_thread(permissions.visible_job, caller, release, self._store.job)

    async def _own(self, caller: Caller, release: str, action: str) -> StoredJob:
        """Return a job that the caller may change. Raises Failure."""
        return await asyncio.to_thread(permissions.own_job, caller, release, self._store.job, action)


def _without_project(filled: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in filled.items() if key != "project"}


def _moment(key: str, text: str | None) -> str | None:
    """Return a time or a duration before now in the format of the database. Raises Failure."""
    try:
        return None if text is None else as_text(units.moment(text, datetime.now(UTC), zone=UTC))
    except ValueError as error:
        raise Failure("invalid-query", f"{key}: {error}") from None


def _decoded(cursor: str | None) -> tuple[str, str] | None:
    if cursor is None:
        return None
    try:
        created, release = jsonio.read(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if isinstance(created, str) and isinstance(release, str):
            return created, release
    except (ValueError, TypeError):
        pass
    raise Failure("invalid-query", "cursor: expected the `next` of a page")

"""The database of a server, with the SQL statements for jobs and events. Each method is one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, or_, select, tuple_, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from packager.base.errors import MlpackError, ToolError
from packager.base.values import Value, as_dict, replace
from packager.service.failures import Failure
from packager.service.store import databases, migration, outbox
from packager.service.store.models import (
    NewEvent,
    StoredEvent,
    StoredJob,
    StoredStatus,
    Usage,
    definitions,
    events,
    jobs,
    logs,
    now,
    read,
    storable,
)
from packager.service.store.quota import Quota, Share, Wait, startable, waits
from packager.service.store.revisions import KeptLogs, Measured, Revisions, StoredTokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Select

FINAL = ("succeeded", "failed", "deleted")
"""The statuses of ended jobs."""

ACTIVE = ("queued", "pending", "running")
"""The statuses of jobs that have not ended."""

STATUSES = (*ACTIVE, *FINAL)
"""All statuses of a job."""

GOALS = ("cancel", "delete", "delete-storage")
"""The goals of a job, except `run`; each includes those before it."""

_MOST_CHOICES = 200
_UNFINISHED = jobs.c.status.in_(ACTIVE) | jobs.c.goal.in_(GOALS)
_NO_QUOTA = Quota()


class SameNameError(MlpackError):
    """Another job has the name that was generated for a new job, or the key of its request."""


class JobQuery(Value, frozen=True):
    """The filters of a list of jobs; None for all jobs."""

    status: str | None = None
    definition: str | None = None
    creator: str | None = None
    application: str | None = None
    project: str | None = None
    since: str | None = None  # the earliest time of creation: a time, or in requests also a duration before now
    until: str | None = None  # the end of the times of creation, excluded
    q: str | None = None  # a part of the release or the title
    limit: int = 50
    cursor: str | None = None  # the `next` of the previous page
    ended_since: str | None = None  # the earliest time of the end, as `since`


_STATE = ("status", "reason", "message", "hint", "log_line", "pods", "findings", "attempts", "started", "ended")
"""The columns of a job that the control loop changes."""


class Store:
    """The database of one server."""

    def __init__(self, where: str | Path, *, is_served: bool = False, migrates: bool = True) -> None:
        """Open the database, create it if it does not exist, and migrate it to the newest schema.

        Args:
            where: A path, or `postgresql://…`.
            is_served: Whether to lock the database, so that no other server can use it.
            migrates: Whether to migrate a database of an older mlpack.

        Raises:
            ToolError: The database cannot be opened, is faulty or of a newer mlpack, or another server uses it; or an
                older mlpack has written it, and `migrates` is false.
            UsageError: The address is invalid.
        """
        self.database = databases.opened(where)  # the connections, and statements on the whole database
        self._writing, self._reading = self.database.writing, self.database.reading
        self.tokens = StoredTokens(self.database)
        self.revisions = Revisions(self.database)  # the templates and the definitions
        self.outbox = outbox.Outbox(self.database)  # the callbacks
        self.logs = KeptLogs(self.database)  # the kept logs
        self.measured = Measured(self.database)  # the curves of jobs
        try:
            if is_served:
                self.database.claim()
            with self._writing() as connection:
                self.was_migrated = migration.upgrade(connection, is_allowed=migrates)
        except DBAPIError as error:
            self.close()
            raise ToolError(f"the database {self.shown} cannot be used: {error.orig}") from None
        except BaseException:
            self.close()
            raise

    @property
    def shown(self) -> str:
        """The address or the path of the database, without a password."""
        return self.database.shown

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def _names(self, statement: Select[str]) -> list[str]:
        with self._reading() as connection:
            return list(connection.execute(statement).scalars())

    def check_writable(self) -> None:
        """Raise ToolError if the database does not answer, or the disk of its file is full."""
        self.database.check_room()
        self.counts()

    def count_unfinished(self, project: str, owner: str) -> tuple[int, int]:
        """Return the number of jobs of an owner in a project that have not ended, and of all in the project."""
        counted = select(func.count().filter(jobs.c.owner == owner), func.count())
        with self._reading() as connection:
            own, total = connection.execute(counted.where(jobs.c.project == project, jobs.c.status.in_(ACTIVE))).one()
        return int(own), int(total)

    def size(self, project: str) -> int:
        """Return the bytes of a project's jobs, of their kept logs, and of its definitions."""
        own = jobs.c.project == project
        sizes = (
            select(func.sum(func.length(jobs.c.filled) + func.length(jobs.c.manifests))).where(own),
            select(func.sum(logs.c.size)).join_from(logs, jobs, jobs.c.release == logs.c.release).where(own),
            select(func.sum(func.length(definitions.c.body))).where(definitions.c.project == project),
        )
        with self._reading() as connection:
            return sum(int(connection.execute(size).scalar() or 0) for size in sizes)

    def add_job(self, new: StoredJob, actor: str, limits: Quota = _NO_QUOTA) -> StoredJob:
        """Store a job with its first event, and return it. Raises SameNameError, or Failure if too many jobs wait.

        Args:
            new: The job; with the status `queued`, Kueue holds it.
            actor: The caller who requested the job.
            limits: The limits of the project; without room, the job is stored as `queued`.
        """
        try:
            with self._writing() as connection:
                job = replace(new, created=new.created or now())
                if limits != _NO_QUOTA:
                    job = self._queued(connection, job, limits)
                connection.execute(insert(jobs).values(as_dict(job)))
                first = NewEvent(release=job.release, sequence=1, status=job.status, reason="Created", actor=actor)
                told = outbox.announce(connection, job, _add_event(connection, first), None)
        except IntegrityError:
            if self.job(new.release) or (new.request_key and self.job_of_request(new.request_key)):
                raise SameNameError(f"the job {new.release!r} exists") from None
            raise
        self.outbox.written += told
        return job

    def _queued(self, connection: Connection, job: StoredJob, limits: Quota) -> StoredJob:
        """Return a new job, with the status `queued` if there is no room for it. Raises Failure."""
        started, waiting = self._shares(connection, job.project)
        if job.status == "queued":
            counted = select(func.count()).where(jobs.c.project == job.project, jobs.c.status == "queued")
            queued = int(connection.execute(counted).scalar_one())
        else:
            share = Share(job.release, job.owner, job.gpus)
            if job.release in startable(started, [*waiting, share], limits):
                return job
            queued = len(waiting)
            job = replace(job, status="queued", reason="NoRoom", message="waits for room in the project")
        if limits.queued is not None and queued >= limits.queued:
            raise Failure("quota", f"{queued} jobs of the project {job.project!r} wait, and no more may")
        return job

    @staticmethod
    def _shares(connection: Connection, project: str) -> tuple[list[Share], list[Share]]:
        """Return the shares of a project's started jobs, and of the jobs that wait for room."""
        columns = (jobs.c.release, jobs.c.owner, jobs.c.gpus, jobs.c.status, jobs.c.applied)
        statement = (
            select(*columns)
            .where(jobs.c.project == project, jobs.c.status.in_(ACTIVE))
            .order_by(jobs.c.created, jobs.c.release)
        )
        started: list[Share] = []
        waiting: list[Share] = []
        for release, owner, gpus, status, applied in connection.execute(statement):
            waits = status == "queued" and not applied
            (waiting if waits else started).append(Share(release, owner, gpus))
        return started, waiting

    def admit(self, project: str, limits: Quota) -> list[str]:
        """Set the waiting jobs of a project for which there is room to `pending`, and return their releases."""
        with self._writing() as connection:
            started, waiting = self._shares(connection, project)
            releases = list(startable(started, waiting, limits)) if waiting else []
            for release in releases:
                fields = {"status": "pending", "reason": None, "message": None}
                connection.execute(update(jobs).where(jobs.c.release == release).values(**fields))
                _add_event(connection, NewEvent(release=release, status="pending", reason="Admitted"))
            return releases

    def waits(self, project: str, limits: Quota) -> dict[str, Wait]:
        """Return the place in the queue of each job that waits for room in a project, and why it waits now."""
        with self._reading() as connection:
            return waits(*self._shares(connection, project), limits)

    def choices(self, projects: Sequence[str] | None) -> dict[str, list[str]]:
        """Return the values by which the jobs of some projects, None for all, can be filtered."""
        with self._reading() as connection:
            result = {}
            for key in ("definition", "application", "creator", "project"):
                statement = select(jobs.c[key]).distinct().order_by(jobs.c[key]).limit(_MOST_CHOICES)
                if projects is not None:
                    statement = statement.where(jobs.c.project.in_(projects))
                result[key] = [value for value in connection.execute(statement).scalars() if value]
            return result

    def rename_job(self, release: str, title: str | None) -> None:
        """Set the title of a job, if it exists."""
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.release == release).values(title=title))

    def failures(self, projects: Sequence[str], since: str) -> dict[str, int]:
        """Return how many jobs of each project have failed since a time; projects without any are left out."""
        with self.database.reading() as connection:
            statement = select(jobs.c.project, func.count()).where(*_failed(projects, since)).group_by(jobs.c.project)
            return {str(project): int(count) for project, count in connection.execute(statement)}

    def failed(self, projects: Sequence[str], since: str, limit: int) -> list[StoredJob]:
        """Return the jobs of some projects that have failed since a time, the last one first."""
        statement = select(jobs).where(*_failed(projects, since)).order_by(jobs.c.ended.desc(), jobs.c.release)
        return self.database.rows(StoredJob, statement.limit(limit))

    def waiting(self, projects: Sequence[str], limit: int) -> list[StoredJob]:
        """Return the jobs of some projects that do not run yet, the oldest first."""
        are_waiting = (jobs.c.status.in_(("queued", "pending")), jobs.c.project.in_(projects))
        statement = select(jobs).where(*are_waiting).order_by(jobs.c.created, jobs.c.release)
        return self.database.rows(StoredJob, statement.limit(limit))

    def usage(self) -> list[Usage]:
        """Return the current numbers of jobs that have not ended, and of their GPUs, by project and status."""
        counts = (func.count().label("jobs"), func.sum(jobs.c.gpus).label("gpus"))
        by_status = (jobs.c.project, jobs.c.status)
        statement = select(*by_status, *counts).where(jobs.c.status.in_(ACTIVE)).group_by(*by_status)
        return self.database.rows(Usage, statement)

    def job(self, release: str) -> StoredJob | None:
        """Return a job; None if it does not exist."""
        return self.database.row(StoredJob, select(jobs).where(jobs.c.release == release))

    def job_of_request(self, key: str) -> StoredJob | None:
        """Return the job that a request with an idempotency key has created; see `RequestKey`."""
        return self.database.row(StoredJob, select(jobs).where(jobs.c.request_key == key))

    def jobs(
        self, query: JobQuery, projects: Sequence[str] | None = None, after: tuple[str, str] | None = None
    ) -> list[StoredJob]:
        """Return jobs, the newest first."""
        statement = select(jobs).order_by(jobs.c.created.desc(), jobs.c.release.desc()).limit(query.limit)
        filters = {key: jobs.c[key].__eq__ for key in ("status", "definition", "creator", "application", "project")}
        bounds = {"since": jobs.c.created.__ge__, "until": jobs.c.created.__lt__, "ended_since": jobs.c.ended.__ge__}
        for key, condition in (filters | bounds).items():
            if (value := getattr(query, key)) is not None:
                statement = statement.where(condition(value))
        if projects is not None:
            statement = statement.where(jobs.c.project.in_(projects))
        if query.q is not None and "\0" in query.q:  # SQLite ends a pattern at NUL
            return []
        if query.q is not None:
            found = (jobs.c.release, jobs.c.title)
            statement = statement.where(or_(*(text.icontains(query.q, autoescape=True) for text in found)))
        if after is not None:
            statement = statement.where(tuple_(jobs.c.created, jobs.c.release) < tuple_(*after))
        return self.database.rows(StoredJob, statement)

    def unfinished(self) -> list[StoredStatus]:
        """Return the jobs of the control loop: those that have not ended or have a goal such as delete."""
        parts = [jobs.c[name] for name in StoredStatus.__struct_fields__]
        return self.database.rows(StoredStatus, select(*parts).where(_UNFINISHED).order_by(jobs.c.created))

    def namespaces_in_use(self) -> list[str]:
        """Return the namespaces of the jobs of the control loop."""
        return self._names(select(jobs.c.namespace).where(_UNFINISHED).distinct())

    def ended_before(self, time: str, limit: int) -> list[str]:
        """Return the releases of jobs that ended before a time and are not being deleted, the oldest first."""
        statement = select(jobs.c.release).where(jobs.c.status.in_(FINAL), jobs.c.ended < time, jobs.c.goal == "run")
        return self._names(statement.order_by(jobs.c.ended).limit(limit))

    def mark_applied(self, release: str) -> None:
        """Record that the objects of a job were applied."""
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.release == release).values(applied=True))

    def want(self, release: str, goal: str, actor: str) -> StoredJob | None:
        """Set the goal of a job unless it has the same or a later one of GOALS, or has ended before it is cancelled.

        Returns:
            The job, which has ended if it could not be cancelled; None if it does not exist.
        """
        own = [jobs.c.release == release, jobs.c.goal.not_in(GOALS[GOALS.index(goal) :])]
        if goal == "cancel":
            own.append(jobs.c.status.in_(ACTIVE))
        with self._writing() as connection:
            is_new = bool(connection.execute(update(jobs).where(*own).values(goal=goal)).rowcount)
            job = _job(connection, release)
            if job is not None and is_new:
                reason = "Cancelling" if goal == "cancel" else "Deleting"
                event = NewEvent(release=release, status=job.status, reason=reason, actor=actor)
                _add_event(connection, event)
            return job

    def change_job(self, changed: StoredJob) -> bool:
        """Store the state of a job that has not ended: its status, pods, findings, attempts and times.

        Returns:
            Whether its status or reason has changed, which is stored as an event.
        """
        changed = storable(changed, _STATE)
        with self._writing() as connection:
            before = _job(connection, changed.release)
            if before is None or before.status in FINAL:
                return False
            after = replace(before, **{name: getattr(changed, name) for name in _STATE})
            if after != before:
                state = {name: value for name, value in as_dict(after).items() if name in _STATE}
                connection.execute(update(jobs).where(jobs.c.release == after.release).values(state))
            if (after.status, after.reason) == (before.status, before.reason):
                return False
            event = NewEvent(release=after.release, status=after.status, reason=after.reason, message=after.message)
            told = outbox.announce(connection, after, _add_event(connection, event), before.status)
        self.outbox.written += told
        return True

    def settle(self, release: str) -> bool:
        """Record that a cancelled job needs no more work; return False if it has got another goal."""
        own = jobs.c.release == release
        with self._writing() as connection:
            settled = update(jobs).where(own, jobs.c.goal == "cancel").values(goal="run")
            return bool(connection.execute(settled).rowcount)

    def remove_job(self, release: str, goal: str) -> bool:
        """Remove a job whose goal, `delete` or `delete-storage`, is reached, and its events.

        Waiting callbacks stay until they are sent. Returns False if the job has got another goal, and stays.
        """
        own = jobs.c.release == release
        with self._writing() as connection:
            if not connection.execute(delete_from(jobs).where(own, jobs.c.goal == goal)).rowcount:
                return False
            self.outbox.forget(connection, release)
            return True

    def events(
        self, release: str | None, after: int = 0, limit: int = 1000, projects: Sequence[str] | None = None
    ) -> list[StoredEvent]:
        """Return the events of a job, or of all jobs (of some projects), after the id `after`, the oldest first."""
        statement = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        if release is not None:
            statement = statement.where(events.c.release == release)
        elif projects is not None:
            statement = statement.join(jobs, jobs.c.release == events.c.release).where(jobs.c.project.in_(projects))
        return self.database.rows(StoredEvent, statement)

    def last_event(self) -> int:
        """Return the id of the newest event; 0 if there is none."""
        with self._reading() as connection:
            return int(connection.execute(select(events.c.id).order_by(events.c.id.desc()).limit(1)).scalar() or 0)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs with each status."""
        with self._reading() as connection:
            rows = connection.exec_driver_sql("SELECT status, count(*) FROM jobs GROUP BY status")
            return {str(status): int(count) for status, count in rows}


def _job(connection: Connection, release: str) -> StoredJob | None:
    return next(iter(read(connection, StoredJob, select(jobs).where(jobs.c.release == release))), None)


def _add_event(connection: Connection, event: NewEvent) -> NewEvent:
    """Store an event, and return it with its time and, unless it has one, the next sequence of its job."""
    sequence = event.sequence
    if not sequence:
        last = select(func.max(events.c.sequence)).where(events.c.release == event.release)
        sequence = 1 + (connection.execute(last).scalar() or 0)
    added = storable(replace(event, sequence=sequence, time=now()), ("reason", "message", "actor"))
    connection.execute(insert(events).values(as_dict(added)))
    return added


def _failed(projects: Sequence[str], since: str) -> tuple[ColumnElement[bool], ...]:
    return (jobs.c.status == "failed", jobs.c.ended >= since, jobs.c.project.in_(projects))

"""The SQL statements of the server. Each method is one transaction, and returns typed values."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, select, text, tuple_, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from packager.base.errors import MlpackError
from packager.base.values import Value, replace
from packager.service.store import databases, migration, outbox, prepared, room
from packager.service.store.databases import AwayError
from packager.service.store.kept import KeptLogs
from packager.service.store.measured import Measured
from packager.service.store.quota import Quota, Share, startable
from packager.service.store.rows import (
    KeyedRequest,
    NewEvent,
    StoredDefinition,
    StoredEvent,
    StoredJob,
    StoredStatus,
    StoredTemplate,
    StoredToken,
    Usage,
    columns,
    read,
)
from packager.service.store.sessions import StoredSessions
from packager.service.store.tables import definitions, events, jobs, meta, requests, templates, tokens
from packager.service.times import as_text, now

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import TypeVar

    from sqlalchemy import ColumnElement, Connection, Executable, Select, Table

    from packager.service.store.room import Taken
    from packager.service.store.rows import Row

    Revision = TypeVar("Revision", bound=StoredTemplate)

KEPT_REQUESTS = timedelta(hours=24)
"""The time for which the response to a request with an idempotency key is kept."""

_LONGEST_REQUEST = timedelta(minutes=5)
"""The time after which a request with an idempotency key can be taken over, although its replica runs."""

_MOST = (1 << 63) - 1
"""The largest integer in the database."""

FINAL = ("succeeded", "failed", "deleted")
"""The statuses of ended jobs."""

ACTIVE = ("queued", "pending", "running")
"""The statuses of jobs that have not ended."""

STATUSES = (*ACTIVE, *FINAL)
"""All statuses of a job."""

GOALS = ("cancel", "delete", "delete-storage")
"""The goals of a job, except `run`."""

PACKAGE = "package:"
"""The start of the names of rendered packages in the table `templates`; names of templates cannot contain a colon."""

_PROBE = "probe"
_PROBE_BYTES = 16 << 10
"""The key and the size of the row that tests whether writes succeed: a full disk still accepts a few bytes."""

_UNFINISHED = jobs.c.status.in_(ACTIVE) | jobs.c.goal.in_(GOALS)
_NO_QUOTA = Quota()


class ExistsError(MlpackError):
    """The name is already used."""


class MismatchError(MlpackError):
    """The object does not have the revision that the caller expects."""


class InUseError(MlpackError):
    """The object is used by other objects."""


class SameNameError(MlpackError):
    """Another job has the name that was generated for a new job."""


class TakenOverError(MlpackError):
    """Another request with the same key has taken over: this one took too long, or its replica was unreachable."""


class QueueFullError(MlpackError):
    """The maximum number of jobs of the project already wait."""


class Filters(Value, frozen=True):
    """The filters of a list of jobs; None for no filter."""

    status: str | None = None
    definition: str | None = None
    creator: str | None = None
    application: str | None = None
    since: str | None = None
    until: str | None = None
    q: str | None = None
    projects: tuple[str, ...] | None = None


def is_same(stored: Revision, new: Revision) -> bool:
    """Whether a current revision of a template or a definition equals a new one, regardless of the author."""
    return replace(stored, author=new.author, revision=new.revision, created=new.created) == new


class NewJob(Value, frozen=True):
    """A job to store.

    Attributes:
        job: The job; with the status `queued`, Kueue holds it.
        actor: The caller who requested the job.
        answer: Returns the response to the request from the complete job; None without an idempotency key.
        limits: The limits of the project; without room, the job is stored as `queued`.
    """

    job: StoredJob
    actor: str
    answer: Callable[[StoredJob], KeyedRequest | None]
    limits: Quota = _NO_QUOTA


_STATE = ("status", "reason", "message", "hint", "pods", "findings", "attempts", "started", "ended")
"""The columns of a job that the control loop changes."""


class Store:
    """The database of one server.

    Attributes:
        replica: A random number that identifies this replica in its requests.
    """

    def __init__(self, where: str | Path, *, is_served: bool = False) -> None:
        """Open the database, create it if it does not exist, and migrate it to the newest schema.

        Args:
            where: A path, `sqlite:PATH` or `postgresql://…`.
            is_served: Whether to lock a database that is not PostgreSQL, so that no other server can use it.

        Raises:
            ToolError: The database cannot be opened, is faulty or of a newer mlpack, or another server uses it.
            UsageError: The address is invalid.
        """
        self.database = databases.opened(where)
        self._writing, self._reading = self.database.writing, self.database.reading
        self.replica = 1 + secrets.randbelow((1 << 31) - 1)
        self.outbox = outbox.Outbox(self.database)
        self.logs = KeptLogs(self.database)
        self.measured = Measured(self.database)
        self.sessions = StoredSessions(self.database)
        try:
            if is_served:
                self.database.claim()
            with self._writing() as connection:
                self.was_migrated = migration.upgrade(connection)
        except DBAPIError as error:
            self.close()
            raise databases.cannot_be_used(self.database, error) from None
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

    def _rows(self, kind: type[Row], statement: Executable, **values: object) -> list[Row]:
        with self._reading() as connection:
            try:
                return read(connection, kind, statement, **values)
            except DataError:  # texts in PostgreSQL cannot contain NUL, so no row matches
                return []

    def _row(self, kind: type[Row], statement: Executable, **values: object) -> Row | None:
        return next(iter(self._rows(kind, statement, **values)), None)

    def _names(self, statement: Select[str]) -> list[str]:
        with self._reading() as connection:
            return list(connection.execute(statement).scalars())

    def ping(self) -> None:
        """Raise AwayError if the database does not answer."""
        with self._reading() as connection:
            connection.execute(text("SELECT 1"))

    def check_writable(self) -> None:
        """Raise ToolError if the database does not accept writes, or its disk is full."""
        self.database.check_room()
        with self._writing() as connection:
            connection.execute(delete_from(meta).where(meta.c.key == _PROBE))
            connection.execute(insert(meta).values(key=_PROBE, value="." * _PROBE_BYTES))

    def check(self) -> list[str]:
        """Return the problems that the database finds in itself."""
        return self.database.check()

    def backup(self, file: Path) -> None:
        """Write a consistent copy of the database to a new file. Raises ToolError, also if the file exists."""
        self.database.backup(file)

    def setting(self, key: str, default: Callable[[], str]) -> str:
        """Return a stored value; if there is none, store the default and return it."""
        with self._writing() as connection:
            value = connection.execute(select(meta.c.value).where(meta.c.key == key)).scalar()
            if value is None:
                value = default()
                connection.execute(insert(meta).values(key=key, value=value))
            return str(value)

    # tokens

    def add_token(self, token: StoredToken) -> None:
        """Store a token."""
        with self._writing() as connection:
            connection.execute(insert(tokens).values(columns(token)))

    def tokens(self, projects: Sequence[str] | None = None) -> list[StoredToken]:
        """Return the tokens of some projects, or all tokens for None, the oldest first."""
        statement = select(tokens).order_by(tokens.c.created)
        if projects is not None:
            statement = statement.where(tokens.c.project.in_(projects))
        return self._rows(StoredToken, statement)

    def token(self, digest: str) -> StoredToken | None:
        """Return the token with a digest; None if it does not exist."""
        return self._row(StoredToken, select(tokens).where(tokens.c.digest == digest))

    def token_by_id(self, identifier: str) -> StoredToken | None:
        """Return the token with an id; None if it does not exist."""
        return self._row(StoredToken, select(tokens).where(tokens.c.id == identifier))

    def use_token(self, identifier: str) -> None:
        """Record the use of a token."""
        with self._writing() as connection:
            connection.execute(update(tokens).where(tokens.c.id == identifier).values(last_used=now()))

    def remove_token(self, identifier: str, projects: Sequence[str] | None = None) -> bool:
        """Remove a token, only of some projects unless they are None; return whether it existed."""
        statement = delete_from(tokens).where(tokens.c.id == identifier)
        with self._writing() as connection:
            if projects is not None:
                statement = statement.where(tokens.c.project.in_(projects))
            return bool(connection.execute(statement).rowcount)

    # templates and definitions, which are stored in the same way

    def add_template(self, name: str, body: str, author: str) -> StoredTemplate:
        """Store the first revision of a template. Raises ExistsError."""
        return self._add(templates, StoredTemplate(name=name, body=body, author=author))

    def add_definition(
        self, name: str, template: str, body: str, author: str, package: str | None = None
    ) -> StoredDefinition:
        """Store the first revision of a definition, and its rendered package. Raises ExistsError."""
        new = StoredDefinition(name=name, template=template, body=body, author=author)
        return self._add(definitions, new, package)

    def _add(self, table: Table, new: Revision, package: str | None = None) -> Revision:
        with self._writing() as connection:
            _add_package(connection, new, package)
            last = _last(connection, table, new)
            if last is not None and last.is_current:
                raise ExistsError(f"{new.name!r} already exists")
            return _add_revision(connection, table, new, last)

    def change_template(self, name: str, body: str, author: str, expected: int | None) -> StoredTemplate | None:
        """Store the next revision of a template, unless it equals the last one, and return the current revision.

        Returns:
            The current revision; None if the template does not exist.

        Raises:
            MismatchError: The last revision is not the expected one.
        """
        return self._change(templates, StoredTemplate(name=name, body=body, author=author), expected)

    def change_definition(
        self, new: StoredDefinition, package: str | None, expected: int | None
    ) -> StoredDefinition | None:
        """Store the next revision of a definition and its rendered package; see `change_template`."""
        return self._change(definitions, new, expected, package)

    def package(self, name: str) -> StoredTemplate | None:
        """Return a rendered package; None if `name` is the name of a template."""
        if not name.startswith(PACKAGE):
            return None
        return self._row(StoredTemplate, select(templates).where(templates.c.name == name).limit(1))

    def _change(self, table: Table, new: Revision, expected: int | None, package: str | None = None) -> Revision | None:
        with self._writing() as connection:
            last = _last(connection, table, new)
            if last is None or not last.is_current:
                return None
            if expected is not None and expected != last.revision:
                raise MismatchError(f"expected revision {expected}, found {last.revision}")
            if is_same(last, new):
                return last
            _add_package(connection, new, package)
            connection.execute(update(table).where(table.c.name == new.name).values(is_current=False))
            return _add_revision(connection, table, new, last)

    def templates(self) -> list[StoredTemplate]:
        """Return the current revision of each template, by name."""
        return self._rows(StoredTemplate, select(templates).where(templates.c.is_current).order_by(templates.c.name))

    def definitions(self) -> list[StoredDefinition]:
        """Return the current revision of each definition, by name."""
        statement = select(definitions).where(definitions.c.is_current).order_by(definitions.c.name)
        return self._rows(StoredDefinition, statement)

    def template(self, name: str, revision: int | None = None) -> StoredTemplate | None:
        """Return a revision of a template, or the current one; None if it does not exist."""
        return None if name.startswith(PACKAGE) else self._revision(StoredTemplate, templates, name, revision)

    def definition(self, name: str, revision: int | None = None) -> StoredDefinition | None:
        """Return a revision of a definition, or the current one; None if it does not exist."""
        return self._revision(StoredDefinition, definitions, name, revision)

    def _revision(self, kind: type[Revision], table: Table, name: str, revision: int | None) -> Revision | None:
        if revision is None:
            return self._row(kind, prepared.current(table), name=name)
        if revision > _MOST:
            return None
        return self._row(kind, prepared.revision(table), name=name, number=revision)

    def template_revisions(self, name: str) -> list[StoredTemplate]:
        """Return all revisions of a template, the newest first."""
        return [] if name.startswith(PACKAGE) else self._rows(StoredTemplate, _revisions(templates, name))

    def definition_revisions(self, name: str) -> list[StoredDefinition]:
        """Return all revisions of a definition, the newest first."""
        return self._rows(StoredDefinition, _revisions(definitions, name))

    def remove_template(self, name: str) -> bool:
        """Remove a template, and return whether it existed; its jobs stay unchanged. Raises InUseError."""
        with self._writing() as connection:
            users = select(definitions.c.name).where(definitions.c.template == name, definitions.c.is_current)
            names = [str(row[0]) for row in connection.execute(users.limit(5))]
            if names:
                raise InUseError(f"the template {name!r} is used by the definitions {', '.join(names)}")
            return self._retire(connection, templates, name)

    def remove_definition(self, name: str) -> bool:
        """Remove a definition, and return whether it existed; its jobs stay unchanged."""
        with self._writing() as connection:
            return self._retire(connection, definitions, name)

    @staticmethod
    def _retire(connection: Connection, table: Table, name: str) -> bool:
        statement = update(table).where(table.c.name == name, table.c.is_current).values(is_current=False)
        return bool(connection.execute(statement).rowcount)

    # jobs

    def taken(self, project: str) -> Taken:
        """Return the use of the database by the jobs of a project."""
        with self._reading() as connection:
            return room.taken(connection, project, ACTIVE)

    def add_jobs(self, new_jobs: Sequence[NewJob]) -> list[StoredJob | Exception]:
        """Store jobs in one transaction, each with its first event and the response to its request.

        Returns:
            The complete job or the error, for each new job: an error of one job does not affect the others.
        """
        try:
            with self._writing() as connection:
                return [self._add_job(connection, new) for new in new_jobs]
        except AwayError as error:
            return [error] * len(new_jobs)
        except Exception as error:  # noqa: BLE001 - it is unknown which job has caused it
            if len(new_jobs) == 1:
                release = new_jobs[0].job.release
                is_taken = isinstance(error, IntegrityError) and self.job(release) is not None
                return [SameNameError(f"the job {release!r} exists") if is_taken else error]
        return [outcome for new in new_jobs for outcome in self.add_jobs([new])]

    def _add_job(self, connection: Connection, new: NewJob) -> StoredJob | QueueFullError:
        job = replace(new.job, created=new.job.created or now())
        if new.limits != _NO_QUOTA:
            try:
                job = self._queued(connection, job, new.limits)
            except QueueFullError as error:
                return error
        connection.execute(prepared.INSERT_JOB, columns(job))
        first = NewEvent(release=job.release, sequence=1, status=job.status, reason="Created", actor=new.actor)
        outbox.announce(connection, job, self._add_event(connection, first), None)
        request = new.answer(job)
        if request and not self._finish(connection, request):
            raise TakenOverError("another request with this key was begun")
        return job

    def _queued(self, connection: Connection, job: StoredJob, limits: Quota) -> StoredJob:
        """Return a new job, with the status `queued` if there is no room for it. Raises QueueFullError."""
        started, waiting = self._shares(connection, job.project)
        if job.status == "queued":
            counted = select(func.count()).where(jobs.c.project == job.project, jobs.c.status == "queued")
            queued = int(connection.execute(counted).scalar_one())
        else:
            share = Share(job.release, job.owner, job.gpus)
            if job.release in startable(started, [*waiting, share], limits):
                return job
            queued = len(waiting)
            message = "waits for room in the project: others have come before, or its limits are reached"
            job = replace(job, status="queued", reason="NoRoom", message=message)
        if limits.queued is not None and queued >= limits.queued:
            raise QueueFullError(f"{queued} jobs of the project {job.project!r} wait, and no more may")
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
                self._add_event(connection, NewEvent(release=release, status="pending", reason="Admitted"))
            return releases

    def usage(self, project: str) -> list[Usage]:
        """Return the current numbers of jobs and GPUs of a project, by status and owner, with a creator of each."""
        by_owner = (jobs.c.owner, func.max(jobs.c.creator).label("creator"))
        statement = _usage().add_columns(*by_owner).where(jobs.c.project == project).group_by(jobs.c.owner)
        return self._rows(Usage, statement.order_by(jobs.c.status, jobs.c.owner))

    def usage_of_all(self) -> list[Usage]:
        """Return the current numbers of jobs and GPUs, by project and status."""
        return self._rows(Usage, _usage())

    def _add_event(self, connection: Connection, event: NewEvent) -> NewEvent:
        """Store an event, and return it with its time and, unless it has one, the next sequence of its job."""
        sequence = event.sequence
        if not sequence:
            sequence = 1 + (connection.execute(prepared.LAST_EVENT, {"release": event.release}).scalar() or 0)
        added = replace(event, sequence=sequence, time=now())
        connection.execute(prepared.INSERT_EVENT, columns(added))
        self.database.tell(connection, event.release)
        return added

    def job(self, release: str) -> StoredJob | None:
        """Return a job; None if it does not exist."""
        return self._row(StoredJob, prepared.JOB, release=release)

    def jobs(self, filters: Filters, limit: int, after: tuple[str, str] | None = None) -> list[StoredJob]:
        """Return jobs, the newest first.

        Args:
            filters: The filters.
            limit: The maximum number of jobs.
            after: The creation time and the release of the last job on the previous page.
        """
        statement = select(jobs).order_by(jobs.c.created.desc(), jobs.c.release.desc()).limit(limit)
        for key in ("status", "definition", "creator", "application"):
            value = getattr(filters, key)
            if value is not None:
                statement = statement.where(jobs.c[key] == value)
        if filters.projects is not None:
            statement = statement.where(jobs.c.project.in_(filters.projects))
        if filters.since is not None:
            statement = statement.where(jobs.c.created >= filters.since)
        if filters.until is not None:
            statement = statement.where(jobs.c.created < filters.until)
        if filters.q is not None and "\0" in filters.q:  # SQLite ends a pattern at NUL
            return []
        if filters.q is not None:
            statement = statement.where(jobs.c.release.contains(filters.q, autoescape=True))
        if after is not None:
            statement = statement.where(tuple_(jobs.c.created, jobs.c.release) < tuple_(*after))
        return self._rows(StoredJob, statement)

    def unfinished(self) -> list[StoredStatus]:
        """Return the jobs of the control loop: those that have not ended or have a goal such as delete."""
        parts = [jobs.c[name] for name in StoredStatus.__struct_fields__]
        return self._rows(StoredStatus, select(*parts).where(_UNFINISHED).order_by(jobs.c.created))

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
        """Set the goal of a job, and return the job; None if it does not exist."""
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.release == release).values(goal=goal))
            job = _job(connection, release)
            if job is not None:
                reason = "Cancelling" if goal == "cancel" else "Deleting"
                event = NewEvent(release=release, status=job.status, reason=reason, actor=actor)
                self._add_event(connection, event)
            return job

    def change_job(self, changed: StoredJob) -> bool:
        """Store the state of a job that has not ended: its status, pods, findings, attempts and times.

        Returns:
            Whether its status or reason has changed, which is stored as an event.
        """
        with self._writing() as connection:
            before = _job(connection, changed.release)
            if before is None or before.status in FINAL:
                return False
            after = replace(before, **{name: getattr(changed, name) for name in _STATE})
            if after != before:
                state = {name: value for name, value in columns(after).items() if name in _STATE}
                connection.execute(update(jobs).where(jobs.c.release == after.release).values(state))
            if (after.status, after.reason) == (before.status, before.reason):
                return False
            event = NewEvent(release=after.release, status=after.status, reason=after.reason, message=after.message)
            outbox.announce(connection, after, self._add_event(connection, event), before.status)
            return True

    def settle(self, release: str) -> None:
        """Record that a cancelled job needs no more work."""
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.release == release).values(goal="run"))

    def remove_job(self, release: str) -> None:
        """Remove a job and its events; waiting callbacks stay until they are sent."""
        with self._writing() as connection:
            self.outbox.forget(connection, release)
            connection.execute(delete_from(jobs).where(jobs.c.release == release))

    def events(
        self, release: str | None, after: int = 0, limit: int = 1000, projects: Sequence[str] | None = None
    ) -> list[StoredEvent]:
        """Return the events of a job, or of all jobs (of some projects), after the id `after`, the oldest first."""
        statement = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        if release is not None:
            statement = statement.where(events.c.release == release)
        elif projects is not None:
            statement = statement.join(jobs, jobs.c.release == events.c.release).where(jobs.c.project.in_(projects))
        return self._rows(StoredEvent, statement)

    def last_event(self) -> int:
        """Return the id of the newest event; 0 if there is none."""
        with self._reading() as connection:
            return int(connection.execute(select(events.c.id).order_by(events.c.id.desc()).limit(1)).scalar() or 0)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs with each status."""
        with self._reading() as connection:
            rows = connection.exec_driver_sql("SELECT status, count(*) FROM jobs GROUP BY status")
            return {str(status): int(count) for status, count in rows}

    # requests with an idempotency key

    def begin(self, request: KeyedRequest) -> KeyedRequest | None:
        """Record the start of a request; return the earlier request of the same caller, path and key, if there is one.

        An earlier request without a response is replaced if its replica has ended or it is older than five minutes.
        """
        old = as_text(datetime.now(UTC) - KEPT_REQUESTS)
        with self._writing() as connection:
            connection.execute(delete_from(requests).where(requests.c.created < old))
            for earlier in read(connection, KeyedRequest, select(requests).where(*_same(request))):
                if earlier.status is not None or self._is_at_work(connection, earlier):
                    return earlier
            connection.execute(delete_from(requests).where(*_same(request)))
            begun = replace(request, created=now(), replica=self.replica)
            connection.execute(insert(requests).values(columns(begun)))
        return None

    def _is_at_work(self, connection: Connection, request: KeyedRequest) -> bool:
        if request.created < as_text(datetime.now(UTC) - _LONGEST_REQUEST):
            return False
        return request.replica == self.replica or self.database.has_replica(connection, request.replica)

    def finish(self, request: KeyedRequest) -> None:
        """Store the response to a request, unless one is stored or another request has taken over."""
        with self._writing() as connection:
            self._finish(connection, request)

    def _finish(self, connection: Connection, request: KeyedRequest) -> bool:
        """Store the response to a request, if this replica processes it; return whether it does."""
        response = {"status": request.status, "body": request.body, "location": request.location}
        return bool(connection.execute(update(requests).where(*self._own(request)).values(response)).rowcount)

    def _own(self, request: KeyedRequest) -> tuple[ColumnElement[bool], ...]:
        return (*_same(request), requests.c.status.is_(None), requests.c.replica == self.replica)

    def forget(self, request: KeyedRequest) -> None:
        """Remove a failed request, so that it can be repeated."""
        with self._writing() as connection:
            connection.execute(delete_from(requests).where(*self._own(request)))


def _add_package(connection: Connection, new: StoredTemplate, content: str | None) -> None:
    """Store the rendered package of a definition, unless it is already stored; it is never changed."""
    if content is None or not isinstance(new, StoredDefinition):
        return
    stored = select(templates.c.name).where(templates.c.name == new.template).limit(1)
    if connection.execute(stored).first() is None:
        package = StoredTemplate(name=new.template, body=content, author=new.author, is_current=False, created=now())
        connection.execute(insert(templates).values(columns(package)))


def _last(connection: Connection, table: Table, new: Revision) -> Revision | None:
    """Return the last revision of the name of a new one; None if there is none."""
    return next(iter(read(connection, type(new), _revisions(table, new.name).limit(1))), None)


def _add_revision(connection: Connection, table: Table, new: Revision, last: Revision | None) -> Revision:
    """Store a revision after the last one, and return it."""
    revision = replace(new, revision=last.revision + 1 if last else 1, created=now())
    connection.execute(insert(table).values(columns(revision)))
    return revision


def _revisions(table: Table, name: str) -> Select[*tuple[object, ...]]:
    """Return the statement that selects all revisions of a name, the newest first."""
    return select(table).where(table.c.name == name).order_by(table.c.revision.desc())


def _job(connection: Connection, release: str) -> StoredJob | None:
    return next(iter(read(connection, StoredJob, prepared.JOB, release=release)), None)


def _usage() -> Select[*tuple[object, ...]]:
    """Return the statement that counts the jobs that have not ended, and their GPUs, by project and status."""
    counts = (func.count().label("jobs"), func.sum(jobs.c.gpus).label("gpus"))
    by_status = (jobs.c.project, jobs.c.status)
    return select(*by_status, *counts).where(jobs.c.status.in_(ACTIVE)).group_by(*by_status)


def _same(request: KeyedRequest) -> tuple[ColumnElement[bool], ...]:
    own = (request.caller, request.path, request.key)
    return tuple(column == value for column, value in zip(requests.primary_key, own, strict=True))

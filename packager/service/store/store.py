"""The SQL statements of the server. Each method is one transaction, and returns plain values."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, select, text, tuple_, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from packager.base.errors import MlpackError
from packager.base.values import Value
from packager.service.store import databases, migration, outbox, prepared, room
from packager.service.store.databases import AwayError
from packager.service.store.kept import KeptLogs
from packager.service.store.measured import Measured
from packager.service.store.quota import Quota, Share, startable
from packager.service.store.sessions import StoredSessions
from packager.service.store.tables import definitions, events, jobs, meta, requests, templates, tokens
from packager.service.times import as_text, now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Table

    from packager.service.store.room import Taken

Row = dict[str, Any]
"""A row of a table, by the names of the columns."""

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


def is_same(stored: Row, row: Row) -> bool:
    """Whether a stored revision of a template or a definition equals a new one, regardless of the author."""
    return all(stored[key] == value for key, value in row.items() if key != "author")


class NewJob(Value, frozen=True):
    """A job to store.

    Attributes:
        row: The job; with the status `queued`, Kueue holds it.
        actor: The caller who requested the job.
        answer: Returns the response to the request from the complete job; None without an idempotency key.
        limits: The limits of the project; without room, the job is stored as `queued`.
    """

    row: Row
    actor: str
    answer: Callable[[Row], Row | None]
    limits: Quota = _NO_QUOTA


_NEW_JOB: Row = {
    "reason": None,
    "message": None,
    "hint": None,
    "started": None,
    "ended": None,
    "goal": "run",
    "applied": False,
    "status": "pending",
    "pods": "[]",
    "findings": "[]",
    "project": "default",
    "gpus": 0,
    "attempts": None,
    "owner": "",
    "requester": "",
}
"""The default values of a new job."""


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
        self.outbox = outbox.Outbox(self._writing, self._reading)
        self.logs = KeptLogs(self._writing, self._reading)
        self.measured = Measured(self._writing, self._reading)
        self.sessions = StoredSessions(self._writing, self._reading)
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

    def _rows(self, statement: Any, **values: object) -> list[Row]:
        with self._reading() as connection:
            try:
                return [dict(row) for row in connection.execute(statement, values).mappings()]
            except DataError:  # texts in PostgreSQL cannot contain NUL, so no row matches
                return []

    def _row(self, statement: Any) -> Row | None:
        rows = self._rows(statement.limit(1))
        return rows[0] if rows else None

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

    def add_token(self, row: Row) -> None:
        """Store a token."""
        with self._writing() as connection:
            connection.execute(insert(tokens).values(**row))

    def tokens(self, projects: Sequence[str] | None = None) -> list[Row]:
        """Return the tokens of some projects, or all tokens for None, the oldest first."""
        statement = select(tokens).order_by(tokens.c.created)
        return self._rows(statement if projects is None else statement.where(tokens.c.project.in_(projects)))

    def token(self, digest: str) -> Row | None:
        """Return the token with a digest; None if it does not exist."""
        return self._row(select(tokens).where(tokens.c.digest == digest))

    def token_by_id(self, identifier: str) -> Row | None:
        """Return the token with an id; None if it does not exist."""
        return self._row(select(tokens).where(tokens.c.id == identifier))

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

    def add_template(self, name: str, body: str, author: str) -> Row:
        """Store the first revision of a template. Raises ExistsError."""
        return self._add(templates, {"name": name, "body": body, "author": author})

    def add_definition(self, name: str, template: str, body: str, author: str, package: str | None = None) -> Row:
        """Store the first revision of a definition, and its rendered package. Raises ExistsError."""
        return self._add(definitions, {"name": name, "template": template, "body": body, "author": author}, package)

    def _add(self, table: Table, row: Row, package: str | None = None) -> Row:
        with self._writing() as connection:
            self._add_package(connection, row, package)
            revision = self._last(connection, table, row["name"])
            if revision is not None and revision["is_current"]:
                raise ExistsError(f"{row['name']!r} already exists")
            number = revision["revision"] + 1 if revision else 1
            return self._insert_revision(connection, table, {**row, "revision": number})

    def change_template(self, name: str, body: str, author: str, expected: int | None) -> Row | None:
        """Store the next revision of a template, unless it equals the last one, and return the current revision.

        Returns:
            The current revision; None if the template does not exist.

        Raises:
            MismatchError: The last revision is not the expected one.
        """
        return self._change(templates, {"name": name, "body": body, "author": author}, expected)

    def change_definition(self, row: Row, package: str | None, expected: int | None) -> Row | None:
        """Store the next revision of a definition and its rendered package; see `change_template`."""
        return self._change(definitions, row, expected, package)

    @staticmethod
    def _add_package(connection: Connection, definition: Row, package: str | None) -> None:
        """Store the rendered package of a definition, unless it is already stored; it is never changed."""
        if package is not None:
            name = definition["template"]
            known = select(templates.c.name).where(templates.c.name == name)
            if connection.execute(known.limit(1)).first() is None:
                row = {"name": name, "revision": 1, "body": package, "is_current": False}
                connection.execute(insert(templates).values(**row, created=now(), author=definition["author"]))

    def package(self, name: str) -> Row | None:
        """Return the row of a rendered package; None if `name` is the name of a template."""
        return self._row(select(templates).where(templates.c.name == name)) if name.startswith(PACKAGE) else None

    def _change(self, table: Table, row: Row, expected: int | None, package: str | None = None) -> Row | None:
        with self._writing() as connection:
            last = self._last(connection, table, row["name"])
            if last is None or not last["is_current"]:
                return None
            if expected is not None and expected != last["revision"]:
                raise MismatchError(f"expected revision {expected}, found {last['revision']}")
            if is_same(last, row):
                return last
            self._add_package(connection, row, package)
            connection.execute(update(table).where(table.c.name == row["name"]).values(is_current=False))
            return self._insert_revision(connection, table, {**row, "revision": last["revision"] + 1})

    @staticmethod
    def _last(connection: Connection, table: Table, name: str) -> Row | None:
        statement = select(table).where(table.c.name == name).order_by(table.c.revision.desc()).limit(1)
        row = connection.execute(statement).mappings().first()
        return dict(row) if row else None

    @staticmethod
    def _insert_revision(connection: Connection, table: Table, row: Row) -> Row:
        whole = {**row, "is_current": True, "created": now()}
        connection.execute(insert(table).values(**whole))
        return whole

    def templates(self) -> list[Row]:
        """Return the current revision of each template, by name."""
        return self._rows(select(templates).where(templates.c.is_current).order_by(templates.c.name))

    def definitions(self) -> list[Row]:
        """Return the current revision of each definition, by name."""
        return self._rows(select(definitions).where(definitions.c.is_current).order_by(definitions.c.name))

    def template(self, name: str, revision: int | None = None) -> Row | None:
        """Return a revision of a template, or the current one; None if it does not exist."""
        return None if name.startswith(PACKAGE) else self._revision(templates, name, revision)

    def definition(self, name: str, revision: int | None = None) -> Row | None:
        """Return a revision of a definition, or the current one; None if it does not exist."""
        return self._revision(definitions, name, revision)

    def _revision(self, table: Table, name: str, revision: int | None) -> Row | None:
        if revision is not None and revision > _MOST:
            return None
        if revision is None:
            rows = self._rows(prepared.current(table), name=name)
        else:
            rows = self._rows(prepared.revision(table), name=name, number=revision)
        return rows[0] if rows else None

    def template_revisions(self, name: str) -> list[Row]:
        """Return all revisions of a template, the newest first."""
        if name.startswith(PACKAGE):
            return []
        return self._rows(select(templates).where(templates.c.name == name).order_by(templates.c.revision.desc()))

    def definition_revisions(self, name: str) -> list[Row]:
        """Return all revisions of a definition, the newest first."""
        return self._rows(select(definitions).where(definitions.c.name == name).order_by(definitions.c.revision.desc()))

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

    def add_job(self, row: Row, actor: str, answer: Callable[[Row], Row | None], limits: Quota = _NO_QUOTA) -> Row:
        """Store one job; see `NewJob`.

        Raises:
            QueueFullError: The job would have to wait, and the maximum number of jobs already waits.
            SameNameError: A job of this name exists.
            TakenOverError: Another request with the same idempotency key has begun; the job is not stored.
        """
        outcome = self.add_jobs([NewJob(row, actor, answer, limits)])[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def taken(self, project: str) -> Taken:
        """Return the use of the database by the jobs of a project."""
        with self._reading() as connection:
            return room.taken(connection, project, ACTIVE)

    def add_jobs(self, new_jobs: Sequence[NewJob]) -> list[Row | Exception]:
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
                release = str(new_jobs[0].row["release"])
                is_taken = isinstance(error, IntegrityError) and self.job(release) is not None
                return [SameNameError(f"the job {release!r} exists") if is_taken else error]
        return [outcome for new in new_jobs for outcome in self.add_jobs([new])]

    def _add_job(self, connection: Connection, new: NewJob) -> Row | QueueFullError:
        job = {**_NEW_JOB, "created": now(), **new.row}
        if new.limits != _NO_QUOTA:
            try:
                self._queue(connection, job, new.limits)
            except QueueFullError as error:
                return error
        connection.execute(prepared.INSERT_JOB, job)
        first = {"status": job["status"], "reason": "Created", "message": None, "actor": new.actor}
        added = self._insert_event(connection, {"release": job["release"], "sequence": 1, **first})
        outbox.announce(connection, job, added, None)
        request = new.answer(job)
        if request and not self._finish(connection, request):
            raise TakenOverError("another request with this key was begun")
        return job

    def _queue(self, connection: Connection, job: Row, limits: Quota) -> None:
        """Set the status of a new job to `queued` if there is no room for it. Raises QueueFullError."""
        started, waiting = self._shares(connection, job["project"])
        if job["status"] == "queued":
            counted = select(func.count()).where(jobs.c.project == job["project"], jobs.c.status == "queued")
            queued = int(connection.execute(counted).scalar_one())
        else:
            share = Share(job["release"], job["owner"], job["gpus"])
            if job["release"] in startable(started, [*waiting, share], limits):
                return
            queued = len(waiting)
            message = "waits for room in the project: others have come before, or its limits are reached"
            job |= {"status": "queued", "reason": "NoRoom", "message": message}
        if limits.queued is not None and queued >= limits.queued:
            raise QueueFullError(f"{queued} jobs of the project {job['project']!r} wait, and no more may")

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
                self._add_event(connection, release, {"status": "pending", "reason": "Admitted"})
            return releases

    def usage(self, project: str) -> list[Row]:
        """Return the current `jobs` and `gpus` of a project, by `status` and `owner`, with a `creator` of each."""
        named = func.max(jobs.c.creator).label("creator")
        columns = (jobs.c.status, jobs.c.owner, named, func.count().label("jobs"), func.sum(jobs.c.gpus).label("gpus"))
        return self._rows(
            select(*columns)
            .where(jobs.c.project == project, jobs.c.status.in_(ACTIVE))
            .group_by(jobs.c.status, jobs.c.owner)
            .order_by(jobs.c.status, jobs.c.owner)
        )

    def usage_of_all(self) -> list[Row]:
        """Return the current `jobs` and `gpus`, by `project` and `status`."""
        columns = (jobs.c.project, jobs.c.status, func.count().label("jobs"), func.sum(jobs.c.gpus).label("gpus"))
        return self._rows(select(*columns).where(jobs.c.status.in_(ACTIVE)).group_by(jobs.c.project, jobs.c.status))

    def _add_event(self, connection: Connection, release: str, fields: Row) -> Row:
        last = connection.execute(prepared.LAST_EVENT, {"release": release}).scalar()
        blank = {"reason": None, "message": None, "actor": None}
        return self._insert_event(connection, {"release": release, "sequence": (last or 0) + 1, **blank, **fields})

    def _insert_event(self, connection: Connection, fields: Row) -> Row:
        added = {**fields, "time": now()}
        connection.execute(prepared.INSERT_EVENT, added)
        self.database.tell(connection, fields["release"])
        return added

    def job(self, release: str) -> Row | None:
        """Return a job; None if it does not exist."""
        rows = self._rows(prepared.JOB, release=release)
        return rows[0] if rows else None

    def jobs(self, filters: Filters, limit: int, after: tuple[str, str] | None = None) -> list[Row]:
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
        return self._rows(statement)

    def unfinished(self) -> list[Row]:
        """Return the jobs of the control loop: those that have not ended or have a goal such as delete.

        The rows have only the columns that the control loop needs to choose the jobs to check.
        """
        what_it_does = (jobs.c.status, jobs.c.applied, jobs.c.goal, jobs.c.reason)
        columns = (jobs.c.release, jobs.c.project, jobs.c.namespace, *what_it_does)
        return self._rows(select(*columns).where(_UNFINISHED).order_by(jobs.c.created))

    def namespaces_in_use(self) -> list[str]:
        """Return the namespaces of the jobs of the control loop."""
        return [row["namespace"] for row in self._rows(select(jobs.c.namespace).where(_UNFINISHED).distinct())]

    def ended_before(self, time: str, limit: int) -> list[str]:
        """Return the releases of jobs that ended before a time and are not being deleted, the oldest first."""
        statement = select(jobs.c.release).where(jobs.c.status.in_(FINAL), jobs.c.ended < time, jobs.c.goal == "run")
        return [row["release"] for row in self._rows(statement.order_by(jobs.c.ended).limit(limit))]

    def mark_applied(self, release: str) -> None:
        """Record that the objects of a job were applied."""
        with self._writing() as connection:
            connection.execute(update(jobs).where(jobs.c.release == release).values(applied=True))

    def want(self, release: str, goal: str, actor: str) -> Row | None:
        """Set the goal of a job, and return the job; None if it does not exist."""
        with self._writing() as connection:
            changed = connection.execute(update(jobs).where(jobs.c.release == release).values(goal=goal)).rowcount
            if changed:
                row = connection.execute(select(jobs).where(jobs.c.release == release)).mappings().one()
                word = "Cancelling" if goal == "cancel" else "Deleting"
                self._add_event(connection, release, {"status": row["status"], "reason": word, "actor": actor})
                return dict(row)
        return None

    def change_job(self, release: str, fields: Mapping[str, Any]) -> bool:
        """Store new values of a job that has not ended; return whether its status or reason changed, with an event."""
        with self._writing() as connection:
            before = connection.execute(select(jobs).where(jobs.c.release == release)).mappings().first()
            if before is None or before["status"] in FINAL:
                return False
            changes = {key: value for key, value in fields.items() if before[key] != value}
            if changes:
                connection.execute(update(jobs).where(jobs.c.release == release).values(**changes))
            is_event = bool({"status", "reason"} & changes.keys())
            if is_event:
                after = {**before, **changes}
                told = {key: after[key] for key in ("status", "reason", "message")}
                added = self._add_event(connection, release, told)
                outbox.announce(connection, after, added, before["status"])
            return is_event

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
    ) -> list[Row]:
        """Return the events of a job, or of all jobs (of some projects), after the id `after`, the oldest first."""
        statement = select(events).where(events.c.id > after).order_by(events.c.id).limit(limit)
        if release is not None:
            statement = statement.where(events.c.release == release)
        elif projects is not None:
            statement = statement.join(jobs, jobs.c.release == events.c.release).where(jobs.c.project.in_(projects))
        return self._rows(statement)

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

    def begin(self, request: Row) -> Row | None:
        """Record the start of a request; return the earlier request of the same caller, path and key, if there is one.

        An earlier request without a response is replaced if its replica has ended or it is older than five minutes.
        """
        old = as_text(datetime.now(UTC) - KEPT_REQUESTS)
        with self._writing() as connection:
            connection.execute(delete_from(requests).where(requests.c.created < old))
            earlier = connection.execute(select(requests).where(*_same(request))).mappings().first()
            if earlier is not None and (earlier["status"] is not None or self._is_at_work(connection, earlier)):
                return dict(earlier)
            connection.execute(delete_from(requests).where(*_same(request)))
            connection.execute(insert(requests).values(**request, created=now(), replica=self.replica))
        return None

    def _is_at_work(self, connection: Connection, request: Mapping[Any, Any]) -> bool:
        if request["created"] < as_text(datetime.now(UTC) - _LONGEST_REQUEST):
            return False
        replica = request["replica"]
        return replica == self.replica or self.database.has_replica(connection, replica)

    def finish(self, request: Row) -> None:
        """Store the response to a request, unless one is stored or another request has taken over."""
        with self._writing() as connection:
            self._finish(connection, request)

    def _finish(self, connection: Connection, request: Row) -> bool:
        """Store the response to a request, if this replica processes it; return whether it does."""
        statement = update(requests).where(*self._own(request))
        answer = {key: request[key] for key in ("status", "body", "location")}
        return bool(connection.execute(statement.values(**answer)).rowcount)

    def _own(self, request: Row) -> tuple[ColumnElement[bool], ...]:
        return (*_same(request), requests.c.status.is_(None), requests.c.replica == self.replica)

    def forget(self, request: Row) -> None:
        """Remove a failed request, so that it can be repeated."""
        with self._writing() as connection:
            connection.execute(delete_from(requests).where(*self._own(request)))


def _same(request: Row) -> tuple[ColumnElement[bool], ...]:
    return tuple(requests.c[name] == request[name] for name in ("caller", "path", "key"))


def as_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

"""The SQL statements for the outbox, which contains the callbacks to send and the result of each.

A row is written in the transaction that changes a job's status. Rows have no reference to their job, so callbacks of a
deleted job are still sent.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, func, insert, or_, select, tuple_, update

from packager.base import jsonio
from packager.base.values import as_dict
from packager.kubernetes.manifest import listing, mapping
from packager.service.store.models import Delivery, deliveries, jobs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from sqlalchemy import ColumnElement, Connection, Select, Table

    from packager.base.values import Json
    from packager.service.store.databases import Database
    from packager.service.store.models import NewEvent, StoredJob

ORIGINAL = ("pending", "succeeded", "failed", "deleted")
"""The statuses that are reported to an endpoint without `events`."""

_REPORTED = {"queued": "pending"}
"""The statuses with another name for receivers."""


def announce(connection: Connection, job: StoredJob, event: NewEvent, before: str | None) -> int:
    """Write a row for each endpoint that receives the new status of a job, and return their number."""
    status = _REPORTED.get(job.status, job.status)
    if before is not None and status == _REPORTED.get(before, before):
        return 0
    told = [(index, url) for index, url, statuses in _endpoints(job) if status in statuses]
    times: dict[int, str] = {}  # until which the callbacks to each endpoint wait that are sent before
    if told and before is not None:
        waits = select(deliveries.c.endpoint, func.max(deliveries.c.next_try)).where(
            deliveries.c.release == job.release, deliveries.c.state == "waiting"
        )
        rows = connection.execute(waits.group_by(deliveries.c.endpoint))
        times = {int(index): str(time or "") for index, time in rows}
    for index, url in told:
        new = Delivery(
            id=f"msg_{secrets.token_hex(12)}",
            release=job.release,
            project=job.project,
            endpoint=index,
            sequence=event.sequence,
            status=status,
            url=url,
            host=_host(url),
            body=jsonio.compact(
                {
                    "status": status,
                    "task_id": job.release,
                    "task_def": job.definition,
                    "creator": job.creator,
                    "application": job.application,
                    "sequence": event.sequence,
                    "reason": event.reason,
                    "message": event.message,
                    "time": event.time,
                    "created": job.created,
                    "started": job.started,
                    "ended": job.ended,
                }
            ),
            secrets=job.secrets,
            created=event.time,
            next_try=max(event.time, times.get(index, "")),
        )
        connection.execute(insert(deliveries).values(as_dict(new)))
    return len(told)


def _endpoints(job: StoredJob) -> Iterator[tuple[int, str, list[Json]]]:
    """Yield the index, the address and the reported statuses of each endpoint of type `event`."""
    for index, item in enumerate(listing(job.values.get("endpoints"))):
        endpoint = mapping(item)
        url = endpoint.get("endpoint")
        if endpoint.get("type") == "event" and isinstance(url, str):
            yield index, url, endpoint.get("events") or list(ORIGINAL)


def _host(url: str) -> str:
    """Return the key by which requests to one host are counted."""
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0].lower()
    return authority if authority.endswith("]") else authority.rpartition(":")[0] or authority


def _heads(*columns: ColumnElement[object] | Table) -> Select[*tuple[object, ...]]:
    """Return the statement that selects columns of the first waiting callback of each endpoint of a job."""
    earlier = deliveries.alias()
    waits_behind = (
        select(earlier.c.id)
        .where(
            earlier.c.release == deliveries.c.release,
            earlier.c.endpoint == deliveries.c.endpoint,
            earlier.c.state == "waiting",
            earlier.c.sequence < deliveries.c.sequence,
        )
        .exists()
    )
    return select(*columns).where(deliveries.c.state == "waiting", ~waits_behind)


class Outbox:
    """The callbacks of a server's jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.written = 0  # the callbacks that were added, counted when they are committed

    def due(
        self, time: str, hosts: Collection[str], endpoints: Collection[tuple[str, int]], limit: int
    ) -> list[Delivery]:
        """Return the due callbacks, of each endpoint of a job only the first waiting one, the oldest first."""
        statement = (
            _heads(deliveries)
            .where(
                deliveries.c.next_try <= time,
                deliveries.c.host.not_in(hosts),
                tuple_(deliveries.c.release, deliveries.c.endpoint).not_in(endpoints),
            )
            .order_by(deliveries.c.next_try)
        )
        return self._database.rows(Delivery, statement.limit(limit))

    def next_time(self) -> str | None:
        """Return the time of the next callback; None if none waits."""
        with self._database.reading() as connection:
            time = connection.scalar(_heads(deliveries.c.next_try).order_by(deliveries.c.next_try).limit(1))
        return None if time is None else str(time)

    def waiting(self) -> int:
        """Return the number of waiting callbacks."""
        statement = select(func.count()).select_from(deliveries).where(deliveries.c.state == "waiting")
        with self._database.reading() as connection:
            return int(connection.execute(statement).scalar_one())

    def settle(self, changed: Delivery) -> None:
        """Store the result of an attempt, and remove finished callbacks of a deleted job.

        Callbacks of the endpoint behind it are not due before it.
        """
        same = and_(deliveries.c.release == changed.release, deliveries.c.endpoint == changed.endpoint)
        has_job = select(jobs.c.release).where(jobs.c.release == deliveries.c.release).exists()
        with self._database.writing() as connection:
            connection.execute(update(deliveries).where(deliveries.c.id == changed.id).values(as_dict(changed)))
            others = update(deliveries).where(same, deliveries.c.state == "waiting")
            connection.execute(others.values(next_try=changed.next_try or changed.last_try))
            if changed.state != "waiting":
                connection.execute(delete(deliveries).where(same, deliveries.c.state != "waiting", ~has_job))

    def of_job(self, release: str) -> list[Delivery]:
        """Return the callbacks of a job, by sequence and endpoint."""
        statement = select(deliveries).where(deliveries.c.release == release)
        return self._database.rows(Delivery, statement.order_by(deliveries.c.sequence, deliveries.c.endpoint))

    @staticmethod
    def forget(connection: Connection, release: str) -> None:
        """Remove the callbacks of a job, except those that still wait."""
        done = or_(deliveries.c.state != "waiting", deliveries.c.next_try.is_(None))
        connection.execute(delete(deliveries).where(deliveries.c.release == release, done))

"""The SQL statements for the outbox, which contains the callbacks to send and the result of each.

A row is written in the transaction that changes a job's status. Rows have no reference to their job, so callbacks of a
deleted job are still sent.
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, func, insert, or_, select, tuple_, update

from packager.base.values import Value
from packager.service.store.tables import deliveries, jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    Row = dict[str, Any]

ORIGINAL = ("pending", "succeeded", "failed", "deleted")
"""The statuses that are reported to an endpoint without `events`."""

_WORDS = {"queued": "pending"}
"""The statuses with another name for receivers."""


def announce(connection: Connection, job: Mapping[str, Any], event: Mapping[str, Any], before: str | None) -> None:
    """Write a row for each endpoint that receives the new status of a job.

    Args:
        connection: The transaction that changes the status.
        job: The changed job.
        event: The event, with its sequence and time.
        before: The previous status of the job; None for a new job.
    """
    word = _WORDS.get(job["status"], job["status"])
    if before is not None and word == _WORDS.get(before, before):
        return
    rows = [
        {
            "id": f"msg_{secrets.token_hex(12)}",
            "release": job["release"],
            "project": job["project"],
            "endpoint": index,
            "sequence": event["sequence"],
            "status": word,
            "url": item["endpoint"],
            "host": _host(item["endpoint"]),
            "body": _body(word, job, event),
            "secrets": job["secrets"],
            "state": "waiting",
            "attempts": 0,
            "created": event["time"],
            "next_try": event["time"],
        }
        for index, item in _endpoints(job)
        if word in (item.get("events") or ORIGINAL)
    ]
    if not rows:
        return
    gone = select(deliveries.c.endpoint).where(deliveries.c.release == job["release"], deliveries.c.state == "gone")
    left = {int(row[0]) for row in connection.execute(gone)}
    waits = select(deliveries.c.endpoint, func.max(deliveries.c.next_try)).where(
        deliveries.c.release == job["release"], deliveries.c.state == "waiting"
    )
    times = {int(place): time for place, time in connection.execute(waits.group_by(deliveries.c.endpoint))}
    for row in rows:
        state = {"state": "gone", "next_try": None} if row["endpoint"] in left else {}
        row["next_try"] = max(row["next_try"], times.get(row["endpoint"], ""))
        connection.execute(insert(deliveries).values({**row, **state}))


def _endpoints(job: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    items = json.loads(job["filled"]).get("endpoints")
    return [
        (index, item)
        for index, item in enumerate(items if isinstance(items, list) else ())
        if isinstance(item, dict) and item.get("type") == "event" and isinstance(item.get("endpoint"), str)
    ]


def _host(url: str) -> str:
    """Return the key by which requests to one host are counted."""
    authority = url.partition("://")[2].partition("/")[0].partition("?")[0].lower()
    return authority if authority.endswith("]") else authority.rpartition(":")[0] or authority


def _body(word: str, job: Mapping[str, Any], event: Mapping[str, Any]) -> str:
    body = {
        "status": word,
        "task_id": job["release"],
        "task_def": job["definition"],
        "creator": job["creator"],
        "application": job["application"],
        "sequence": event["sequence"],
        "reason": event.get("reason"),
        "message": event.get("message"),
        "time": event["time"],
        **{key: job[key] for key in ("created", "started", "ended")},
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


class Busy(Value, frozen=True):
    """The hosts, projects and endpoints to which no callbacks are sent now.

    Attributes:
        hosts: The hosts at their limit.
        projects: The projects at their limit.
        endpoints: The releases and endpoint indices with a callback that is being sent.
    """

    hosts: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    endpoints: tuple[tuple[str, int], ...] = ()


class Outbox:
    """The callbacks of a server's jobs.

    Args:
        writing: Begins a write transaction.
        reading: Begins a read transaction.
    """

    def __init__(
        self,
        writing: Callable[[], AbstractContextManager[Connection]],
        reading: Callable[[], AbstractContextManager[Connection]],
    ) -> None:
        self._writing = writing
        self._reading = reading

    def due(self, time: str, busy: Busy, limit: int) -> list[Row]:
        """Return the due callbacks: for each endpoint of a job, only the first waiting one.

        Projects take turns, and so do the hosts of a project.

        Args:
            time: The current time.
            busy: The hosts, projects and endpoints to skip.
            limit: The maximum number of callbacks.
        """
        heads = self._heads().where(
            deliveries.c.next_try <= time,
            deliveries.c.host.not_in(busy.hosts),
            deliveries.c.project.not_in(busy.projects),
            tuple_(deliveries.c.release, deliveries.c.endpoint).not_in(busy.endpoints),
        )
        row = heads.subquery().c
        of_host = func.row_number().over(partition_by=(row.project, row.host), order_by=row.next_try).label("of_host")
        ranked = select(*row, of_host).subquery().c
        turn = func.row_number().over(partition_by=ranked.project, order_by=(ranked.of_host, ranked.next_try))
        columns = [ranked[column.name] for column in deliveries.c]
        statement = select(*columns).order_by(turn, ranked.next_try).limit(limit)
        with self._reading() as connection:
            return [dict(row) for row in connection.execute(statement).mappings()]

    def next_time(self) -> str | None:
        """Return the time of the next callback; None if none waits."""
        first = self._heads().with_only_columns(deliveries.c.next_try).order_by(deliveries.c.next_try).limit(1)
        with self._reading() as connection:
            return connection.execute(first).scalar()

    def waiting(self) -> int:
        """Return the number of waiting callbacks."""
        statement = select(func.count()).select_from(deliveries).where(deliveries.c.state == "waiting")
        with self._reading() as connection:
            return int(connection.execute(statement).scalar_one())

    @staticmethod
    def _heads() -> Any:
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
        return select(deliveries).where(deliveries.c.state == "waiting", ~waits_behind)

    def settle(self, row: Row, fields: Mapping[str, Any]) -> None:
        """Store the result of an attempt, and remove finished callbacks of a deleted job.

        Args:
            row: The callback.
            fields: The new values: state, attempts, code, error, last_try, next_try. The state `gone` applies to all
                waiting callbacks of the endpoint.
        """
        same = and_(deliveries.c.release == row["release"], deliveries.c.endpoint == row["endpoint"])
        is_known = select(jobs.c.release).where(jobs.c.release == deliveries.c.release).exists()
        with self._writing() as connection:
            connection.execute(update(deliveries).where(deliveries.c.id == row["id"]).values(**fields))
            others = update(deliveries).where(same, deliveries.c.state == "waiting")
            if fields["state"] == "gone":
                connection.execute(others.values(state="gone", next_try=None))
            else:  # callbacks behind this one are not due before it
                connection.execute(others.values(next_try=fields["next_try"] or fields["last_try"]))
            if fields["state"] != "waiting":
                connection.execute(delete(deliveries).where(same, deliveries.c.state != "waiting", ~is_known))

    def of_job(self, release: str) -> list[Row]:
        """Return the callbacks of a job, by sequence and endpoint."""
        statement = select(deliveries).where(deliveries.c.release == release)
        with self._reading() as connection:
            rows = connection.execute(statement.order_by(deliveries.c.sequence, deliveries.c.endpoint)).mappings()
            return [dict(row) for row in rows]

    def redeliver(self, release: str, identifier: str, time: str) -> Row | None:
        """Make a callback wait again, with all attempts of a new one; return it, or None if it does not exist."""
        which = and_(deliveries.c.release == release, deliveries.c.id == identifier)
        with self._writing() as connection:
            connection.execute(update(deliveries).where(which).values(state="waiting", attempts=0, next_try=time))
            row = connection.execute(select(deliveries).where(which)).mappings().first()
            return dict(row) if row else None

    @staticmethod
    def forget(connection: Connection, release: str) -> None:
        """Remove the callbacks of a job, except those that still wait."""
        done = or_(deliveries.c.state != "waiting", deliveries.c.next_try.is_(None))
        connection.execute(delete(deliveries).where(deliveries.c.release == release, done))

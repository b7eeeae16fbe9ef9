"""Statements that are built once: building takes longer than running. Tests: service/store/test_store.py."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, insert, select, tuple_

from packager.service.store.tables import deliveries, events, jobs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select, Table

INSERT_JOB = insert(jobs)
INSERT_EVENT = insert(events)

JOB = select(jobs).where(jobs.c.release == bindparam("release"))
"""The statement that selects the job `release`."""

LAST_EVENT = select(events.c.sequence).where(events.c.release == bindparam("release"))
LAST_EVENT = LAST_EVENT.order_by(events.c.sequence.desc()).limit(1)
"""The statement that selects the sequence of the last event of the job `release`."""


def _heads(*columns: ColumnElement[object]) -> Select[*tuple[object, ...]]:
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


def _due() -> Select[*tuple[object, ...]]:
    """Return `DUE`. It sorts no other columns than it needs: bodies and secrets are large."""
    columns = (deliveries.c.id, deliveries.c.project, deliveries.c.host, deliveries.c.next_try)
    heads = _heads(*columns).where(
        deliveries.c.next_try <= bindparam("time"),
        deliveries.c.host.not_in(bindparam("hosts", expanding=True)),
        deliveries.c.project.not_in(bindparam("projects", expanding=True)),
        tuple_(deliveries.c.release, deliveries.c.endpoint).not_in(bindparam("endpoints", expanding=True)),
    )
    row = heads.subquery().c
    of_host = func.row_number().over(partition_by=(row.project, row.host), order_by=row.next_try).label("of_host")
    ranked = select(row.id, row.project, row.next_try, of_host).subquery().c
    turn = func.row_number().over(partition_by=ranked.project, order_by=(ranked.of_host, ranked.next_try))
    return select(ranked.id).order_by(turn, ranked.next_try).limit(bindparam("limit"))


DUE = _due()
"""The statement that selects the ids of at most `limit` callbacks that are due at `time`: of each endpoint of a job
the first waiting one, except those to `hosts`, of `projects` and to `endpoints`. Projects take turns, and so do the
hosts of a project."""

WAITING = select(deliveries).where(
    deliveries.c.id.in_(bindparam("ids", expanding=True)), deliveries.c.state == "waiting"
)
"""The statement that selects those of the callbacks `ids` that still wait."""

NEXT_TRY = _heads(deliveries.c.next_try).order_by(deliveries.c.next_try).limit(1)
"""The statement that selects the time of the next callback."""


@cache
def current(table: Table) -> Select[*tuple[object, ...]]:
    """Return the statement that selects the current revision of `name`."""
    return select(table).where(table.c.name == bindparam("name"), table.c.is_current).limit(1)


@cache
def revision(table: Table) -> Select[*tuple[object, ...]]:
    """Return the statement that selects the revision `number` of `name`."""
    return select(table).where(table.c.name == bindparam("name"), table.c.revision == bindparam("number")).limit(1)

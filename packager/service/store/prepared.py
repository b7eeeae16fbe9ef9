"""Statements that are built once: SQLAlchemy takes several times as long to build one as to run it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, insert, select

from packager.service.store.tables import events, jobs

if TYPE_CHECKING:
    from sqlalchemy import Select, Table

INSERT_JOB = insert(jobs)
INSERT_EVENT = insert(events)

JOB = select(jobs).where(jobs.c.release == bindparam("release"))
"""The statement that selects the job `release`."""

LAST_EVENT = select(events.c.sequence).where(events.c.release == bindparam("release"))
LAST_EVENT = LAST_EVENT.order_by(events.c.sequence.desc()).limit(1)
"""The statement that selects the sequence of the last event of the job `release`."""


@cache
def current(table: Table) -> Select[*tuple[object, ...]]:
    """Return the statement that selects the current revision of `name`."""
    return select(table).where(table.c.name == bindparam("name"), table.c.is_current).limit(1)


@cache
def revision(table: Table) -> Select[*tuple[object, ...]]:
    """Return the statement that selects the revision `number` of `name`."""
    return select(table).where(table.c.name == bindparam("name"), table.c.revision == bindparam("number")).limit(1)

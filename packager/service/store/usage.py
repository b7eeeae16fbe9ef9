"""The SQL statements for the use of the database by the jobs of a project. Tests: service/jobs/test_limits.py."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from packager.base.values import Value
from packager.service.store.tables import jobs, logs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import Connection


class Taken(Value, frozen=True):
    """The jobs of a project, and their size in the database.

    Attributes:
        unfinished: The number of jobs that have not ended, by owner.
        size: The bytes of all jobs and of their kept logs.
    """

    unfinished: Mapping[str, int]
    size: int


def taken(connection: Connection, project: str, active: Collection[str]) -> Taken:
    """Return the use of the database by a project.

    Args:
        connection: A read transaction.
        project: The project.
        active: The statuses of jobs that have not ended.
    """
    counted = select(jobs.c.owner, func.count()).where(jobs.c.project == project, jobs.c.status.in_(active))
    owners = Counter({str(owner): int(count) for owner, count in connection.execute(counted.group_by(jobs.c.owner))})
    of_jobs = select(func.sum(func.length(jobs.c.filled) + func.length(jobs.c.manifests)))
    of_logs = select(func.sum(func.length(logs.c.content))).join_from(logs, jobs, jobs.c.release == logs.c.release)
    sizes = (connection.execute(part.where(jobs.c.project == project)).scalar() for part in (of_jobs, of_logs))
    return Taken(owners, sum(int(size or 0) for size in sizes))

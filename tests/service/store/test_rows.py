from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import replace
from packager.service.store import rows, tables
from tests.service.stored import JOB

if TYPE_CHECKING:
    from sqlalchemy import Table

    from packager.base.values import Value


TABLES: list[tuple[type[Value], Table]] = [
    (rows.StoredToken, tables.tokens),
    (rows.StoredTemplate, tables.templates),
    (rows.StoredDefinition, tables.definitions),
    (rows.StoredJob, tables.jobs),
    (rows.StoredEvent, tables.events),
    (rows.Delivery, tables.deliveries),
    (rows.StoredLog, tables.logs),
]


def test_stored_types_have_the_columns_of_their_table() -> None:
    for kind, table in TABLES:
        assert sorted(kind.__struct_fields__) == sorted(column.name for column in table.columns)


def test_job_reads_its_values_pods_and_objects_from_json() -> None:
    assert (JOB.values, JOB.pod_names, JOB.objects) == ({}, set(), [])
    job = replace(JOB, pods='[{"name": "a"}, {"name": "b"}]', filled='{"x": [1]}')
    assert (job.values, job.pod_names) == ({"x": [1]}, {"a", "b"})

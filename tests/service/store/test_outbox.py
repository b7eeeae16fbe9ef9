"""Tests of the statements for callbacks."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from packager.base.values import replace
from packager.service.store.outbox import Busy
from packager.service.store.store import Store
from tests.service.conftest import BOTH
from tests.service.stored import JOB, add_job

if TYPE_CHECKING:
    from collections.abc import Iterator

LATER = "2999-01-01T00:00:00Z"


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """Yield the statements that are executed in the block."""
    executed: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        executed.append(statement)

    engine = store.database.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        event.remove(engine, "before_cursor_execute", note)


def add(store: Store, release: str, project: str, *hosts: str) -> None:
    hooks = [{"type": "event", "endpoint": f"https://{host}/cb"} for host in hosts]
    add_job(store, replace(JOB, release=release, project=project, filled=json.dumps({"endpoints": hooks})))


@BOTH
def test_rows_of_callbacks_are_read_only_if_one_is_due(database: str) -> None:
    store = Store(database)
    add(store, "demo-1", "red", "one.example", "two.example")
    with statements(store) as executed:
        assert store.outbox.due("2000-01-01T00:00:00Z", Busy(), 10) == []
        assert store.outbox.due(LATER, Busy(projects=("red",)), 10) == []
        assert store.outbox.due(LATER, Busy(endpoints=(("demo-1", 0), ("demo-1", 1))), 10) == []
    assert len(executed) == 3
    assert not [statement for statement in executed if "deliveries.body" in statement]
    assert [item.host for item in store.outbox.due(LATER, Busy(hosts=("one.example",)), 10)] == ["two.example"]
    store.close()


@BOTH
def test_due_callbacks_come_in_turns_of_projects_and_hosts(database: str) -> None:
    store = Store(database)
    for number in range(3):
        add(store, f"red-{number}", "red", "a.example", "a.example")
    add(store, "red-3", "red", "b.example")
    add(store, "blue-1", "blue", "a.example")
    due = [(item.project, item.host) for item in store.outbox.due(LATER, Busy(), 10)]
    assert len(due) == 8
    assert {project for project, _ in due[:2]} == {"red", "blue"}
    assert set(due[:3]) == {("red", "a.example"), ("red", "b.example"), ("blue", "a.example")}
    assert {item.project for item in store.outbox.due(LATER, Busy(), 2)} == {"red", "blue"}
    store.close()

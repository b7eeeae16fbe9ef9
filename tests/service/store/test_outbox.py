"""Tests of the statements for callbacks."""

from __future__ import annotations

import json

from packager.base.values import replace
from packager.service.store.outbox import Busy
from packager.service.store.store import Store
from tests.service.conftest import BOTH
from tests.service.stored import JOB, add_job

LATER = "2999-01-01T00:00:00Z"


def add(store: Store, release: str, project: str, *hosts: str) -> None:
    hooks = [{"type": "event", "endpoint": f"https://{host}/cb"} for host in hosts]
    add_job(store, replace(JOB, release=release, project=project, filled=json.dumps({"endpoints": hooks})))


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

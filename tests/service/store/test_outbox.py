"""Tests of the statements for callbacks."""

from __future__ import annotations

import json

from packager.base.values import replace
from packager.service.store.store import Store
from tests.service.conftest import BOTH
from tests.service.stored import JOB, add_job

LATER = "2999-01-01T00:00:00Z"


@BOTH
def test_due_callbacks_leave_out_busy_hosts_and_endpoints(database: str) -> None:
    store = Store(database)
    hooks = [{"type": "event", "endpoint": f"https://{host}/cb"} for host in ("a.example", "b.example")]
    for number in range(2):
        add_job(store, replace(JOB, release=f"r-{number}", filled=json.dumps({"endpoints": hooks})))
    due = store.outbox.due(LATER, (), (), 10)
    assert [(item.release, item.host) for item in due] == [
        (f"r-{number}", f"{host}.example") for number in range(2) for host in "ab"
    ]
    assert [item.release for item in store.outbox.due(LATER, ("a.example",), [("r-0", 1)], 10)] == ["r-1"]
    assert len(store.outbox.due(LATER, (), (), 3)) == 3
    store.close()

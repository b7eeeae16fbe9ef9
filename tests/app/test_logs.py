"""Tests of the use case `packager.app.logs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app.logs import Feed, follow, logs
from packager.base.errors import ClusterError, UsageError
from tests.life import JOB

if TYPE_CHECKING:
    from packager.app.target import Target
    from tests.life import Life

LAUNCHER = f"{JOB}-launcher-0"


def line(text: str) -> str:
    return f"2026-11-21T00:00:01.000000001Z {text}\n"


def test_logs_yield_bytes(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    life.logs[LAUNCHER] = line("one\x1b[2J")
    assert list(logs(Feed(target))) == [b"one\x1b[2J\n"]


def test_logs_of_all_pods_prefix_each_line_with_pod(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    life.logs = {LAUNCHER: line("lead"), f"{JOB}-worker-0": line("zero"), f"{JOB}-worker-1": line("one")}
    parts = list(logs(Feed(target, all_pods=True)))
    assert parts == [
        f"[{LAUNCHER}] lead\n".encode(),
        f"[{JOB}-worker-0] zero\n".encode(),
        f"[{JOB}-worker-1] one\n".encode(),
    ]


def test_follow_yields_remarks_as_text(target: Target, life: Life) -> None:
    def begin() -> None:
        life.start()
        life.logs[LAUNCHER] = line("one")

    life.deploy()
    life.moments = [lambda: None, begin, life.end]
    assert list(follow(Feed(target, is_following=True))) == [f"waiting for the pod of mpijob/{JOB}", b"one\n"]


def test_logs_iterator_can_be_closed_early(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    life.logs[LAUNCHER] = line("one")
    parts = logs(Feed(target))
    assert next(parts) == b"one\n"
    parts.close()  # type: ignore[attr-defined]


def test_logs_report_missing_job_and_worker(target: Target, life: Life) -> None:
    with pytest.raises(ClusterError) as absent:
        list(logs(Feed(target)))
    assert (str(absent.value), absent.value.hint) == (f"mpijob/{JOB} not found", target.command("deploy"))
    life.deploy()
    life.start()
    with pytest.raises(UsageError) as refused:
        list(logs(Feed(target, worker=2)))
    assert str(refused.value) == "worker 2 not found"

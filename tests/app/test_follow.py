"""Tests of the use case `packager.app.follow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app.follow import follow, verdict
from packager.base.errors import TimedOutError
from packager.kubernetes.verdict import Phase
from tests.life import JOB

if TYPE_CHECKING:
    from packager.app.target import Target
    from tests.life import Life


def test_follow_yields_updates_until_job_ends(target: Target, life: Life) -> None:
    life.deploy()
    life.moments = [lambda: None, life.start, life.end]
    updates = list(follow(target))
    assert [update.verdict.phase for update in updates] == [Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED]
    assert verdict(target, updates[-1]) == updates[-1].verdict


def test_verdict_of_deleted_job_reports_deleted_namespace(target: Target, life: Life) -> None:
    life.deploy()
    life.moments = [life.start, life.remove_all]
    updates = list(follow(target))
    assert updates[-1].verdict.summary == "it was deleted"
    life.has_namespace = False
    assert verdict(target, updates[-1]).summary == "namespace team not found"


def test_follow_waits_for_suspended_job_until_patience_ends(target: Target, life: Life) -> None:
    life.deploy()["spec"]["runPolicy"] = {"suspend": True}
    updates = list(follow(target, patience=3))
    assert {update.verdict.phase for update in updates} == {Phase.STUCK}
    assert len(updates) == 5


def test_follow_timeout_error_reports_last_state(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    with pytest.raises(TimedOutError) as late:
        for _ in follow(target, timeout=0.2):
            pass
    assert str(late.value) == f"mpijob/{JOB} is still running after 0.2 s: pods: 3 running"
    assert late.value.hint == f"it continues in the cluster; follow it with `{target.command('status')}`"

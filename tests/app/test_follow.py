"""Tests of the use case `packager.app.follow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.follow import follow, verdict
from packager.kubernetes.verdict import Phase

if TYPE_CHECKING:
    from packager.app.target import Target
    from tests.life import Life


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

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


def test_updates_come_until_it_has_ended(target: Target, life: Life) -> None:
    life.deploy()
    life.moments = [lambda: None, life.start, life.end]
    updates = list(follow(target))
    assert [update.verdict.phase for update in updates] == [Phase.PENDING, Phase.RUNNING, Phase.SUCCEEDED]
    assert verdict(target, updates[-1]) == updates[-1].verdict


def test_of_one_that_is_gone_the_verdict_says_whether_its_namespace_is(target: Target, life: Life) -> None:
    life.deploy()
    life.moments = [life.start, life.remove_all]
    updates = list(follow(target))
    assert updates[-1].verdict.summary == "it was deleted"
    life.has_namespace = False
    assert verdict(target, updates[-1]).summary == "namespace team not found"


def test_what_may_pass_is_waited_for_as_long_as_somebody_is_patient(target: Target, life: Life) -> None:
    life.deploy()["spec"]["runPolicy"] = {"suspend": True}
    updates = list(follow(target, patience=3))
    assert {update.verdict.phase for update in updates} == {Phase.STUCK}
    assert len(updates) == 5


def test_a_timeout_says_how_it_was_the_last_time(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    with pytest.raises(TimedOutError) as late:
        for _ in follow(target, timeout=0.2):
            pass
    assert str(late.value) == f"mpijob/{JOB} is still running after 0.2 s: pods: 3 running"
    assert late.value.hint == f"it continues in the cluster; follow it with `{target.command('status')}`"

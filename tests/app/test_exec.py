"""Tests of the use case `packager.app.exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app.exec import command_in_pod
from packager.base.errors import ClusterError, UsageError
from tests.life import JOB

if TYPE_CHECKING:
    from packager.app.target import Target
    from tests.life import Life


def test_command_in_pod_selects_main_pod_or_worker(target: Target, life: Life) -> None:
    life.deploy()
    life.start()
    assert command_in_pod(target, ["ls", "-l"], worker=None, terminal=False) == [
        *("exec", "--stdin"),
        *(f"{JOB}-launcher-0", "--container=launcher", "--", "ls", "-l"),
    ]
    argv = command_in_pod(target, ["top"], worker=1, terminal=True)
    assert argv[1:5] == ["--stdin", "--tty", f"{JOB}-worker-1", "--container=worker"]


def test_command_in_pod_refuses_missing_job_and_worker(target: Target, life: Life) -> None:
    with pytest.raises(ClusterError, match=" not found"):
        command_in_pod(target, ["ls"], worker=None, terminal=False)
    life.deploy()
    with pytest.raises(UsageError) as refused:
        command_in_pod(target, ["ls"], worker=0, terminal=False)
    assert refused.value.hint == "it has none now"

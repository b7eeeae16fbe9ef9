"""Tests of `mlpack exec`: its output, and its messages without a running pod."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.life import JOB, at_a_terminal, worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]


EXEC = ("exec", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"


def test_exec_runs_command_in_main_pod_and_returns_its_exit_code(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.broke = (5, "")
    done = mlpack(*EXEC, "-v", "--", "ls", "-l")
    assert done.code == 5
    command = f"--namespace=team exec --stdin {JOB}-launcher-0 --container=launcher -- ls -l"
    assert life.commands == [command]
    assert done.stderr.endswith(f"+ kubectl {command}\n")
    assert mlpack(*EXEC, "--worker", "1", "--", "ls").code == 5
    assert life.commands[1] == f"--namespace=team exec --stdin {JOB}-worker-1 --container=worker -- ls"


def test_exec_has_a_terminal_on_a_terminal(mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.deploy()
    life.start()
    at_a_terminal(monkeypatch)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert mlpack(*EXEC, "--", "top").code == 0
    assert life.commands == [f"--namespace=team exec --stdin --tty {JOB}-launcher-0 --container=launcher -- top"]


@pytest.mark.parametrize(("count", "hint"), [(0, "it has none now"), (2, "there are 0 to 1")])
def test_exec_refuses_unknown_worker(mlpack: Mlpack, life: Life, count: int, hint: str) -> None:
    life.deploy()
    life.objects += [worker(index) for index in range(count)]
    done = mlpack(*EXEC, "--worker", "2", "--", "ls")
    assert (done.code, done.stderr) == (2, f"error: {MPIJOB} has no worker 2\nhint: {hint}\n")
    assert life.commands == []

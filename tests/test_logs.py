"""What logs and exec print, and what they say when there is nothing to print or to run in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.life import JOB, launcher, worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

LOGS = ("logs", "hello-mpi", "-n", "team")
EXEC = ("exec", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"
STATUS_HINT = "hint: mlpack status hello-mpi -n team\n"
DEPLOY_HINT = "hint: mlpack deploy hello-mpi -n team\n"
SILENT = {"waiting": {"reason": "ContainerCreating"}}


def log(*lines: str) -> str:
    return "".join(f"2026-11-21T00:00:0{second}Z {line}\n" for second, line in enumerate(lines))


def test_the_launchers_log_is_printed_without_its_times(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.logs[f"{JOB}-launcher-0"] = log("one", "two")
    done = mlpack(*LOGS)
    assert (done.code, done.stdout, done.stderr) == (0, "one\ntwo\n", "")


def test_all_logs_name_the_pod_of_each_line(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.logs = {f"{JOB}-{pod}": log(f"of {pod}") for pod in ("launcher-0", "worker-0", "worker-1")}
    done = mlpack(*LOGS, "--all")
    assert done.code == 0
    assert done.stdout.splitlines() == [f"[{JOB}-{pod}] of {pod}" for pod in ("launcher-0", "worker-0", "worker-1")]


def test_a_worker_that_there_is_and_one_that_there_is_not(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.logs[f"{JOB}-worker-1"] = log("of worker 1")
    assert mlpack(*LOGS, "--worker", "1").stdout == "of worker 1\n"
    done = mlpack(*LOGS, "--worker", "2")
    assert (done.code, done.stderr) == (2, "error: there is no worker 2\nhint: there are 0 to 1\n")


@pytest.mark.usefixtures("life")
def test_logs_of_what_is_not_there(mlpack: Mlpack) -> None:
    done = mlpack(*LOGS)
    assert (done.code, done.stderr) == (7, f"error: {MPIJOB} is not there\n{DEPLOY_HINT}")
    followed = mlpack(*LOGS, "-f")
    assert (followed.code, followed.stderr) == (7, f"error: {MPIJOB}: it is not there\n{DEPLOY_HINT}")


@pytest.mark.parametrize(("flags", "whom"), [((), "pod"), (("--all",), "pods"), (("--worker", "0"), "pod")])
def test_logs_of_what_has_no_pods_yet(mlpack: Mlpack, life: Life, flags: tuple[str, ...], whom: str) -> None:
    life.deploy()
    done = mlpack(*LOGS, *flags)
    assert (done.code, done.stdout) == (7, "")
    assert done.stderr == (
        f"waiting for the {whom} of {MPIJOB}\nerror: {MPIJOB} has written nothing yet\n{STATUS_HINT}"
    )


def test_a_followed_log_waits_for_its_pod_and_survives_an_outage(mlpack: Mlpack, life: Life) -> None:
    def write() -> None:
        life.start()
        life.logs[f"{JOB}-launcher-0"] = log("one", "two")

    life.deploy()
    life.moments = [lambda: None, write, life.lose, lambda: None, life.answer, life.end]
    done = mlpack(*LOGS, "-f")
    assert (done.code, done.stdout) == (0, "one\ntwo\n")
    assert done.stderr == (
        f"waiting for the pod of {MPIJOB}\n"
        "the cluster does not answer; the log goes on when it does\n"
        "the cluster answers again\n"
    )


def test_a_followed_log_of_a_job_that_cannot_run_says_why(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    bad = [{"name": "launcher", "image": "A:1", "state": {"waiting": {"reason": "InvalidImageName"}}}]
    life.objects.append(launcher(phase="Pending", containerStatuses=bad))
    done = mlpack(*LOGS, "-f")
    assert done.code == 7
    assert done.stderr == f"error: {MPIJOB} cannot run: the image A:1 cannot be pulled\n{STATUS_HINT}"


def test_a_command_runs_in_the_pod_that_leads_and_its_exit_code_is_ours(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.broke = (5, "")
    done = mlpack(*EXEC, "-v", "--", "ls", "-l")
    assert done.code == 5
    command = f"--namespace=team exec --stdin {JOB}-launcher-0 --container=launcher -- ls -l"
    assert life.attached == [command]
    assert done.stderr.endswith(f"+ kubectl {command}\n")
    assert mlpack(*EXEC, "--worker", "1", "--", "ls").code == 5
    assert life.attached[1] == f"--namespace=team exec --stdin {JOB}-worker-1 --container=worker -- ls"


@pytest.mark.usefixtures("life")
def test_a_command_in_what_is_not_there(mlpack: Mlpack) -> None:
    done = mlpack(*EXEC, "--", "ls")
    assert (done.code, done.stderr) == (7, f"error: {MPIJOB} is not there\n{DEPLOY_HINT}")


@pytest.mark.parametrize(("count", "there"), [(0, "there are none now"), (2, "there are 0 to 1")])
def test_a_command_in_a_worker_that_there_is_not(mlpack: Mlpack, life: Life, count: int, there: str) -> None:
    life.deploy()
    life.objects += [worker(index) for index in range(count)]
    done = mlpack(*EXEC, "--worker", "2", "--", "ls")
    assert (done.code, done.stderr) == (2, f"error: {MPIJOB} has no worker 2\nhint: {there}\n")
    assert life.attached == []


@pytest.mark.parametrize("pods", [[], [launcher(state=SILENT)]], ids=["no pod", "a pod that starts"])
def test_a_command_in_a_pod_that_does_not_run(mlpack: Mlpack, life: Life, pods: list[dict[str, object]]) -> None:
    life.deploy()
    life.objects += pods
    done = mlpack(*EXEC, "--", "ls")
    assert done.code == 7
    assert done.stderr == f"error: no pod of {MPIJOB} runs that could take a command\n{STATUS_HINT}"
    assert life.attached == []

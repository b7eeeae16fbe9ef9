"""Tests of `mlpack logs`: its output, and its messages without a log."""

import pytest

from tests.conftest import Mlpack
from tests.life import JOB, Life, launcher

LOGS = ("logs", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"
STATUS_HINT = "hint: mlpack status hello-mpi -n team\n"
DEPLOY_HINT = "hint: mlpack deploy hello-mpi -n team\n"


def log(*lines: str) -> str:
    return "".join(f"2026-11-21T00:00:0{second}Z {line}\n" for second, line in enumerate(lines))


@pytest.fixture
def running(life: Life) -> Life:
    """The cluster, in which the pods of the MPIJob run."""
    life.deploy()
    life.start()
    return life


def test_logs_all_prefix_each_line_with_pod(mlpack: Mlpack, running: Life) -> None:
    running.logs = {f"{JOB}-{pod}": log(f"of {pod}") for pod in ("launcher-0", "worker-0", "worker-1")}
    done = mlpack(*LOGS, "--all")
    assert done.code == 0
    assert done.stdout.splitlines() == [f"[{JOB}-{pod}] of {pod}" for pod in ("launcher-0", "worker-0", "worker-1")]


def test_logs_print_worker_by_index_and_refuse_unknown_index(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-worker-1"] = log("of worker 1")
    assert mlpack(*LOGS, "--worker", "1").stdout == "of worker 1\n"
    done = mlpack(*LOGS, "--worker", "2")
    assert (done.code, done.stderr) == (2, "error: worker 2 not found\nhint: there are 0 to 1\n")


@pytest.mark.usefixtures("life")
def test_logs_report_missing_job(mlpack: Mlpack) -> None:
    done = mlpack(*LOGS)
    assert (done.code, done.stderr) == (7, f"error: {MPIJOB} not found\n{DEPLOY_HINT}")
    followed = mlpack(*LOGS, "-f")
    assert (followed.code, followed.stderr) == (7, f"error: {MPIJOB}: not found\n{DEPLOY_HINT}")


@pytest.mark.parametrize(("flags", "whom"), [((), "pod"), (("--all",), "pods")])
def test_logs_report_job_without_pods(mlpack: Mlpack, life: Life, flags: tuple[str, ...], whom: str) -> None:
    life.deploy()
    done = mlpack(*LOGS, *flags)
    assert (done.code, done.stdout) == (7, "")
    assert done.stderr == (
        f"waiting for the {whom} of {MPIJOB}\nerror: {MPIJOB} has written nothing yet\n{STATUS_HINT}"
    )


def test_logs_follow_waits_for_pod_and_continues_after_outage(mlpack: Mlpack, life: Life) -> None:
    def write() -> None:
        life.start()
        life.logs[f"{JOB}-launcher-0"] = log("one", "two")

    life.deploy()
    life.moments = [lambda: None, write, life.go_silent, lambda: None, life.answer, life.end]
    done = mlpack(*LOGS, "-f")
    assert (done.code, done.stdout) == (0, "one\ntwo\n")
    assert done.stderr == (
        f"waiting for the pod of {MPIJOB}\n"
        "the cluster does not answer; the log continues when it does\n"
        "the cluster is reachable again\n"
    )


def test_logs_follow_reports_why_job_cannot_run(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    bad = [{"name": "launcher", "image": "A:1", "state": {"waiting": {"reason": "InvalidImageName"}}}]
    life.objects.append(launcher(phase="Pending", containerStatuses=bad))
    done = mlpack(*LOGS, "-f")
    assert done.code == 7
    assert done.stderr == f"error: {MPIJOB} cannot run: the image A:1 cannot be pulled\n{STATUS_HINT}"


FORBIDDEN = 'Error from server (Forbidden): pods "x" is forbidden: User "me" cannot get resource "pods/log"'
UNREAD = f"the log of pod/{JOB}-launcher-0 cannot be read: "


def test_logs_print_bytes_unchanged(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-launcher-0"] = log("10%\r20%\r", "\x1b[2J\0\x0b\u2028", "") + "2026-11-21T00:00:09Z no end"
    done = mlpack(*LOGS)
    assert (done.code, done.stdout, done.stderr) == (0, "10%\r20%\r\n\x1b[2J\0\x0b\u2028\n\nno end", "")


@pytest.mark.parametrize("follow", [(), ("-f",)], ids=["once", "followed"])
def test_logs_fail_without_permission_to_read_log(mlpack: Mlpack, running: Life, follow: tuple[str, ...]) -> None:
    running.refused["logs"] = FORBIDDEN
    done = mlpack(*LOGS, *follow)
    why = f'{UNREAD}pods "x" is forbidden: User "me" cannot get resource "pods/log"'
    begun = f"{why}; it continues when the log can be read\n" if follow else ""
    assert (done.code, done.stdout, done.stderr) == (7, "", f"{begun}error: {why}\n")


def test_logs_report_empty_log_of_ended_container(mlpack: Mlpack, life: Life) -> None:
    ran = {"exitCode": 0, "startedAt": "2026-11-21T00:00:00Z", "finishedAt": "2026-11-21T00:00:50Z"}
    more = ", or its node has already removed the log"
    life.deploy()
    life.objects.append(launcher(state={"terminated": ran}))
    life.logs[f"{JOB}-launcher-0"] = ""
    done = mlpack(*LOGS)
    assert (done.code, done.stderr) == (7, f"error: {MPIJOB} has written nothing yet{more}\n{STATUS_HINT}")

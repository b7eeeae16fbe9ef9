"""What status and history say of what is there, to people."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from packager.cluster.follow import follow
from tests.life import ENDED_WITH_3, JOB, POD, at_a_terminal, launcher, worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

STATUS = ("status", "hello-mpi", "-n", "team")
HISTORY = ("history", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"


@pytest.mark.usefixtures("life")
def test_a_job_that_is_not_there_is_7(mlpack: Mlpack) -> None:
    done = mlpack(*STATUS)
    assert (done.code, done.stdout, done.stderr) == (7, f"{MPIJOB}  absent: it is not there\n", "")


def test_a_job_that_runs_is_shown_with_its_pods(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    done = mlpack(*STATUS)
    assert done.code == 0
    assert done.stdout.splitlines() == [
        f"{MPIJOB}  running: pods: 3 running",
        "POD                              STATE    RESTARTS",
        f"{JOB}-launcher-0  Running  0",
        f"{JOB}-worker-0    Running  0",
        f"{JOB}-worker-1    Running  0",
    ]


def test_a_pod_is_its_own_workload(mlpack: Mlpack, life: Life) -> None:
    life.deploy("single-node")["status"] = {"phase": "Succeeded"}
    done = mlpack(*STATUS, "--overlay", "single-node")
    assert done.code == 0
    assert done.stdout.startswith(f"pod/{POD}  succeeded: the pod has ended well\n")


def test_a_failure_is_7_with_its_reason_and_last_lines(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects.append(launcher(state=ENDED_WITH_3, phase="Failed"))
    life.end("Failed", reason="BackoffLimitExceeded")
    done = mlpack(*STATUS)
    assert done.code == 7
    assert done.stdout.startswith(f"{MPIJOB}  failed: the launcher has failed\n")
    assert done.stdout.endswith(
        f"pod/{JOB}-launcher-0: container launcher ended with exit code 3\n  | epoch 1\n  | no such file: train.csv\n"
    )


def test_last_lines_that_the_status_does_not_hold_come_out_of_the_log(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects.append(launcher(state={"terminated": {"exitCode": 1}}, phase="Failed"))
    life.end("Failed", reason="BackoffLimitExceeded")
    life.logs[f"{JOB}-launcher-0"] = "out of the log\n"
    assert "  | out of the log\n" in mlpack(*STATUS).stdout
    assert f"--namespace=team logs {JOB}-launcher-0 --container=launcher --tail=12" in life.calls


def test_of_many_pods_twelve_are_shown(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.start()
    life.objects += [worker(index) for index in range(2, 20)]
    lines = mlpack(*STATUS).stdout.splitlines()
    assert lines[-2].startswith(f"{JOB}-worker-10 ")
    assert lines[-1] == "and 9 more"


def test_a_cluster_that_does_not_answer_is_7(mlpack: Mlpack, life: Life) -> None:
    life.lose()
    done = mlpack(*STATUS)
    assert done.code == 7
    assert done.stderr == (
        "error: the cluster does not answer: Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n"
        "hint: kubectl cluster-info\n"
    )


def test_a_watch_says_when_the_cluster_is_away_and_when_it_is_back(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.moments = [life.start, life.lose, lambda: None, life.answer, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    why = "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout"
    assert [line[7:] for line in done.stderr.splitlines()[:3]] == [
        "running: pods: 3 running",
        f"the cluster does not answer ({why}); asking again until it does",
        "the cluster answers again",
    ]


def test_a_watch_says_a_hint_once(mlpack: Mlpack, life: Life) -> None:
    hint = "hint: is mpi-operator running? kubectl get pods --all-namespaces | grep mpi-operator\n"
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.moments = [lambda: None, lambda: None, life.start, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    assert done.stderr.count(hint) == 1


def test_on_a_terminal_a_watch_is_a_picture(mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch)
    # A look takes next to no time, also on a machine that is busy.
    monkeypatch.setattr("packager.cluster.follow.follow", partial(follow, clock=count(step=0.001).__next__))
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.logs[f"{JOB}-launcher-0"] = "2026-11-21T00:00:01Z epoch 1\n"
    life.moments = [lambda: None, life.start, life.lose, life.answer, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    for words in (
        f"{MPIJOB}  stuck  00:0",
        "  hint: is mpi-operator running?",
        "POD ",
        f"{JOB}-worker-1",
        "log: epoch 1",
        "the cluster has not answered for 0 s; asking again until it does",
        "Ctrl-C leaves it running",
        f"{MPIJOB} has succeeded",
    ):
        assert words in done.stderr


def build(life: Life, digest: str, **fields: Any) -> None:
    """Let somebody else have deployed the pod of another build."""
    notes = {"mlpack/digest": digest, "mlpack/deployed-by": "bob@laptop"}
    life.deploy("single-node")["metadata"] |= {"annotations": notes, **fields}


def test_history_of_nothing(mlpack: Mlpack, life: Life) -> None:
    done = mlpack(*HISTORY)
    assert (done.code, done.stdout, done.stderr) == (0, "", "nothing of hello-mpi is there\n")
    assert all("app.kubernetes.io/name=hello-mpi" in call for call in life.calls)


def test_history_tells_builds_apart(mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    own = json.loads(mlpack(*HISTORY, "-o", "json").stdout)["digest"]
    build(life, "sha256:0123456789abcdef", creationTimestamp="2026-11-21T12:00:00Z")
    life.deploy()["metadata"] |= {"creationTimestamp": "2026-11-21T13:00:00Z"}
    life.end()
    assert [line.split("  ") for line in _columns(mlpack(*HISTORY).stdout)] == [
        ["DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY"],
        ["2026-11-21 13:00", "team", MPIJOB, "succeeded", "applied by kubectl", "-"],
        ["2026-11-21 12:00", "team", f"pod/{POD}", "-", "0123456789ab", "bob@laptop"],
    ]
    build(life, own)
    assert f"{own[7:19]} (this one)  bob@laptop\n" in mlpack(*HISTORY).stdout


def _columns(text: str) -> list[str]:
    return [re.sub("  +", "  ", line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ('error: the server doesn\'t have a resource type "mpijobs"', 0, "nothing of hello-mpi is there\n"),
        (
            'Error from server (Forbidden): mpijobs.kubeflow.org is forbidden: User "me" cannot list resource',
            7,
            'error: mpijobs.kubeflow.org is forbidden: User "me" cannot list resource\n',
        ),
        (
            "Unable to connect to the server: EOF",
            7,
            "error: the cluster does not answer: Unable to connect to the server: EOF\nhint: kubectl cluster-info\n",
        ),
    ],
    ids=["no operator", "forbidden", "away"],
)
def test_history_where_jobs_cannot_be_listed(mlpack: Mlpack, life: Life, said: str, code: int, message: str) -> None:
    life.refused["get mpijobs"] = said
    done = mlpack(*HISTORY)
    assert (done.code, done.stderr) == (code, message)

"""Tests of every verb with an overlay of two workloads, an MPIJob and a Deployment, in a fake cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.life import JOB, SERVER
from tests.serving import manifest, replica, replica_set, report

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

WHERE = ("hello-mpi", "-n", "team")
DEPLOY = ("deploy", *WHERE, "--no-verify")
TRAINING, SERVING = f"mpijob/{JOB}", f"deployment/{SERVER}"


@pytest.fixture
def both(life: Life) -> Life:
    """The fake cluster, for a package whose first overlay contains a Deployment and, after it, an MPIJob."""
    life.served["apps/v1"] = ["Deployment"]
    life.overlays["multi-node"].insert(0, manifest())
    return life


@pytest.fixture
def deployed(both: Life) -> Life:
    """The cluster of `both`, in which the pods of both workloads run."""
    both.deploy()
    both.start()
    serve(both)
    return both


def serve(life: Life) -> None:
    life.objects += [replica_set(), replica(0), replica(1)]
    report(life, 2)


def nothing() -> None:
    """Change nothing at this moment."""


def messages_of(done: Outcome) -> list[str]:
    return [re.sub(r"^\d\d:\d\d  ", "", line) for line in done.stderr.splitlines()]


def test_deploy_follows_each_workload_to_its_end(mlpack: Mlpack, both: Life) -> None:
    both.moments = [nothing, both.start, lambda: serve(both), both.end]
    done = mlpack(*DEPLOY)
    assert (done.code, done.stdout) == (0, "")
    assert messages_of(done)[1:] == [
        f"{TRAINING}, {SERVING} are deployed in the namespace team",
        f"{TRAINING} pending: no pods yet",
        f"{TRAINING} running: pods: 3 running",
        f"{TRAINING} has succeeded",
        "  its log:     mlpack logs hello-mpi -n team",
        "  delete it:   mlpack delete hello-mpi -n team",
        f"{SERVING} serves: 2 of 2 replicas serve",
        f"  its log:     mlpack logs hello-mpi -n team --workload {SERVER}",
        "  delete it:   mlpack delete hello-mpi -n team",
    ]


def test_deploy_stops_at_first_failed_workload(mlpack: Mlpack, both: Life) -> None:
    late = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "no progress"}
    both.moments = [nothing, both.start, lambda: report(both, 0, conditions=[late])]
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert (
        messages_of(done)[-2]
        == f"error: {SERVING} does not serve what was deployed: ProgressDeadlineExceeded; it was left as it is"
    )


def test_status_reports_both_workloads(mlpack: Mlpack, deployed: Life) -> None:
    done = mlpack("status", *WHERE)
    assert done.code == 0
    assert f"{TRAINING}  running: pods: 3 running" in done.stdout
    assert f"{SERVING}  serving: 2 of 2 replicas serve" in done.stdout
    answer = mlpack("status", *WHERE, "-o", "json").json
    assert (answer["workload"], [other["workload"] for other in answer["others"]]) == (TRAINING, [SERVING])
    deployed.end("Failed")
    assert mlpack("status", *WHERE).code == 7


def test_logs_use_main_or_selected_workload(mlpack: Mlpack, deployed: Life) -> None:
    begin = "2026-11-21T00:00:01.000000000Z"
    deployed.logs = {f"{JOB}-launcher-0": f"{begin} epoch 1\n", f"{SERVER}-a-1": f"{begin} ready\n"}
    assert mlpack("logs", *WHERE).stdout == "epoch 1\n"
    assert mlpack("logs", *WHERE, "--workload", SERVER).stdout == "ready\n"


def test_deploy_changes_one_workload_and_keeps_the_other(mlpack: Mlpack, both: Life) -> None:
    both.moments = [nothing, both.start, lambda: serve(both), nothing]
    mlpack(*DEPLOY, "--no-wait")
    both.start()
    serve(both)
    both.overlays["multi-node"][0] = manifest(replicas=3)
    both.moments = []
    done = mlpack(*DEPLOY, "--no-wait")
    assert (done.code, messages_of(done)[:2]) == (
        0,
        [
            f"{TRAINING} already exists and is up to date",
            f"{SERVING} already exists with a different spec; the changes can be applied in place",
        ],
    )


def test_logs_select_workload_by_kind_when_names_are_equal(mlpack: Mlpack, deployed: Life) -> None:
    for item in (*deployed.overlays["multi-node"], *deployed.objects):
        if item["kind"] == "Deployment":
            item["metadata"]["name"] = JOB
    done = mlpack("logs", *WHERE, "--workload", JOB)
    hint = f"use one of mpijob/{JOB}, deployment/{JOB}"
    assert (done.code, done.stderr) == (2, f"error: 2 workloads have the name '{JOB}'\nhint: {hint}\n")
    assert mlpack("logs", *WHERE, "--workload", "other").code == 2
    deployed.logs = {f"{JOB}-launcher-0": "2026-11-21T00:00:01.000000000Z epoch 1\n"}
    assert mlpack("logs", *WHERE, "--workload", f"mpijob/{JOB}").stdout == "epoch 1\n"


def test_delete_removes_both_workloads(mlpack: Mlpack, deployed: Life) -> None:
    done = mlpack("delete", *WHERE, "-y")
    assert (done.code, done.stderr) == (0, f"{TRAINING}, {SERVING} are deleted\n")
    assert [obj["kind"] for obj in deployed.objects if obj["kind"] in ("Deployment", "MPIJob", "ConfigMap")] == []

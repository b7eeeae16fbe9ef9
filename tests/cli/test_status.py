"""Tests of `mlpack status`: its text, JSON and exit codes."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from packager.cli.watching import Lines
from packager.kubernetes.verdict import Finding, Phase, Verdict
from tests.conftest import Mlpack
from tests.fake_cluster import item
from tests.life import ENDED_WITH_3, JOB, POD, Life, at_a_terminal, launcher, worker

STATUS = ("status", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"


@pytest.fixture
def running(life: Life) -> Life:
    """The cluster, in which the pods of the MPIJob run."""
    life.deploy()
    life.start()
    return life


@pytest.mark.usefixtures("life")
def test_status_exits_with_7_for_missing_job(mlpack: Mlpack) -> None:
    done = mlpack(*STATUS)
    assert (done.code, done.stdout, done.stderr) == (7, f"{MPIJOB}  absent: not found\n", "")


@pytest.mark.usefixtures("running")
def test_status_prints_running_job_with_pods(mlpack: Mlpack) -> None:
    done = mlpack(*STATUS)
    assert done.code == 0
    assert done.stdout.splitlines() == [
        f"{MPIJOB}  running: pods: 3 running",
        "POD                              STATE    RESTARTS",
        f"{JOB}-launcher-0  Running  0",
        f"{JOB}-worker-0    Running  0",
        f"{JOB}-worker-1    Running  0",
    ]


def test_status_exits_with_7_and_prints_reason_and_last_lines(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects.append(launcher(state=ENDED_WITH_3, phase="Failed"))
    life.end("Failed", reason="BackoffLimitExceeded")
    done = mlpack(*STATUS)
    assert done.code == 7
    assert done.stdout.startswith(f"{MPIJOB}  failed: the launcher has failed\n")
    assert done.stdout.endswith(
        f"pod/{JOB}-launcher-0: container launcher ended with exit code 3\n  | epoch 1\n  | no such file: train.csv\n"
    )


def test_status_json_describes_state_of_each_container(mlpack: Mlpack, life: Life) -> None:
    times = {"startedAt": "2026-11-21T00:00:01Z", "finishedAt": "2026-11-21T00:00:09Z"}
    life.deploy()
    life.objects += [
        launcher(state={"terminated": {"exitCode": 137, "reason": "OOMKilled", **times}}, phase="Failed"),
        worker(0, state={"running": {"startedAt": "2026-11-21T00:00:01Z"}}),
    ]
    life.end("Failed", reason="BackoffLimitExceeded")
    done = mlpack(*STATUS, "-o", "json")
    began, ended = times.values()
    runs: dict[str, Any] = {"state": "running", "exit_code": None, "signal": None, "reason": None, "finished": None}
    killed = {"exit_code": 137, "signal": 9, "reason": "OOMKilled", "started": began, "finished": ended, "restarts": 0}
    assert done.code == 7
    assert done.json["pods"] == [
        {
            "name": f"{JOB}-launcher-0",
            "role": "main",
            "state": "OOMKilled",
            "phase": "Failed",
            "node": None,
            "restarts": 0,
            "containers": [{"name": "launcher", "state": "terminated", **killed}],
        },
        {
            "name": f"{JOB}-worker-0",
            "role": "worker",
            "state": "Running",
            "phase": "Running",
            "node": None,
            "restarts": 0,
            "containers": [{"name": "worker", **runs, "started": began, "restarts": 0}],
        },
    ]


def test_status_prints_at_most_twelve_pods(mlpack: Mlpack, running: Life) -> None:
    running.objects += [worker(index) for index in range(2, 20)]
    lines = mlpack(*STATUS).stdout.splitlines()
    assert lines[-2].startswith(f"{JOB}-worker-10 ")
    assert lines[-1] == "and 9 more"


KILLED = "processes were killed for taking more memory than their worker may, in: "


def test_status_exits_with_7_when_cluster_does_not_answer(mlpack: Mlpack, life: Life) -> None:
    life.go_silent()
    done = mlpack(*STATUS)
    assert done.code == 7
    assert done.stderr == (
        "error: the cluster does not answer: Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n"
        "hint: kubectl cluster-info\n"
    )


def test_status_watch_reports_outage_and_recovery(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.moments = [life.start, life.go_silent, lambda: None, life.answer, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    why = "Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout"
    assert [line[7:] for line in done.stderr.splitlines()[:3]] == [
        "running: pods: 3 running",
        f"the cluster does not answer ({why}); retrying until it does",
        "the cluster is reachable again",
    ]


def test_status_explains_unprocessed_job_without_permission_to_list_events(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.denied.add("list events")
    done = mlpack(*STATUS)
    why = "mpi-operator is not running, or it rejected the job in an event that you are not allowed to see"
    assert (done.code, done.stdout.splitlines()[0]) == (7, f"{MPIJOB}  stuck: no controller has reacted: {why}")


def test_status_watch_draws_table_on_terminal(mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch)
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.moments = [lambda: None, life.start, life.go_silent, life.answer, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    for text in (
        f"{MPIJOB}  stuck  00:0",
        "  hint: is mpi-operator running?",
        "POD ",
        f"{JOB}-worker-1",
        "the cluster has not answered for 2 s; retrying until it does",
        "Ctrl-C leaves it running",
        f"{MPIJOB} has succeeded",
    ):
        assert text in done.stderr


def test_status_of_missing_workload_names_missing_or_deleted_namespace(mlpack: Mlpack, life: Life) -> None:
    life.objects.append(item("Namespace", "team", metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"}))
    done = mlpack(*STATUS)
    assert (done.code, done.stdout) == (7, f"{MPIJOB}  absent: its namespace team is being deleted\n")
    life.objects, life.has_namespace = [], False
    assert mlpack(*STATUS).stdout == f"{MPIJOB}  absent: namespace team not found\n"
    life.denied.add("get namespaces")
    assert mlpack(*STATUS).stdout == f"{MPIJOB}  absent: not found\n"


KILLED = "processes were killed for taking more memory than their worker may, in: "


@pytest.mark.parametrize(("pods", "count"), [(f"{JOB}-worker-0", 1), ("somebody-elses", 0)])
def test_status_takes_termination_message_only_about_own_pods(
    mlpack: Mlpack, life: Life, pods: str, count: int
) -> None:
    life.deploy()
    message = f"{KILLED}{pods}\n"
    life.objects.append(launcher(state={"terminated": {"exitCode": 0, "message": message}}, phase="Succeeded"))
    life.end()
    done = mlpack(*STATUS)
    assert (done.code, done.stdout.count("was killed")) == (0, count)


LOSS = "".join(f'{{"step": {step}, "loss": {8 - step}}}\n' for step in range(8))


def test_status_lists_numbers_of_the_log(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-launcher-0"] = f"starting\n{LOSS}"
    done = mlpack(*STATUS, "--curves")
    assert done.code == 0
    assert [line.split() for line in done.stdout.splitlines()[5:]] == [
        ["NAME", "POD", "STEP", "LAST", "LOWEST", "HIGHEST"],
        ["loss", f"{JOB}-launcher-0", "7", "1", "1", "8"],
    ]


def test_status_returns_points_as_json(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-launcher-0"] = LOSS
    assert json.loads(mlpack(*STATUS, "-o", "json").stdout)["curves"] is None
    (curve,) = json.loads(mlpack(*STATUS, "--curves", "-o", "json").stdout)["curves"]
    assert (curve["name"], curve["pod"], curve["count"]) == ("loss", f"{JOB}-launcher-0", 8)
    assert curve["points"] == [[step, 8.0 - step] for step in range(8)]


CRASHED = Finding("Error", "pod/a", "container init ended with exit code 1", blocks=False, log=("no model", "in /x"))


def test_last_lines_of_a_container_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    target = SimpleNamespace(shown="job/a", kubectl=SimpleNamespace(runner=SimpleNamespace(clock=lambda: 0.0)))
    target.per_workload = (target,)
    lines = Lines(cast("Any", target))
    for finding in (
        CRASHED,
        replace(CRASHED, message="container init ended with exit code 1; started again, once so far"),
    ):
        verdict = Verdict(Phase.PENDING, "pods: 1 starting", (finding,))
        lines.show(cast("Any", SimpleNamespace(silence=0, verdict=verdict, per_workload=False, index=0, is_last=False)))
    assert capsys.readouterr().err.splitlines() == [
        "00:00  pending: pods: 1 starting",
        "00:00  pod/a: container init ended with exit code 1",
        "  | no model",
        "  | in /x",
        "00:00  pod/a: container init ended with exit code 1; started again, once so far",
    ]


LIST = ("status", "-n", "team")


def build(life: Life, digest: str, **fields: Any) -> None:
    """Deploy the pod as bob@laptop, from the build with this digest."""
    notes = {"mlpack/digest": digest, "mlpack/deployed-by": "bob@laptop"}
    life.deploy("single-node")["metadata"] |= {"annotations": notes, **fields}


def test_status_without_package_shows_build_of_each_deployment(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC")
    assert mlpack(*LIST).stderr == "nothing is deployed in this namespace; -A looks in all\n"
    build(life, "sha256:0123456789abcdef", creationTimestamp="2026-11-21T12:00:00Z")
    life.deploy()["metadata"] |= {"creationTimestamp": "2026-11-21T13:00:00Z"}
    life.end()
    assert [line.split("  ") for line in _columns(mlpack(*LIST).stdout)] == [
        ["DEPLOYED", "NAMESPACE", "WORKLOAD", "ENDED", "BUILD", "BY"],
        ["2026-11-21 13:00", "team", MPIJOB, "succeeded", "applied by kubectl", "-"],
        ["2026-11-21 12:00", "team", f"pod/{POD}", "-", "0123456789ab", "bob@laptop"],
    ]
    life.find("Pod", POD)["metadata"]["annotations"]["mlpack/version"] = "1.2.0"
    assert "1.2.0 0123456789ab  bob@laptop\n" in mlpack(*LIST).stdout


def _columns(text: str) -> list[str]:
    return [re.sub("  +", "  ", line) for line in text.splitlines()]


NO_JOBS = 'mpijobs.kubeflow.org is forbidden: User "me" cannot list resource "mpijobs" in API group "" in the namespace'


def test_status_lists_permitted_kinds_and_names_forbidden_kinds(mlpack: Mlpack, life: Life) -> None:
    build(life, "sha256:0123456789abcdef", creationTimestamp="2026-11-21T12:00:00Z")
    life.denied.add("list mpijobs")
    done = mlpack(*LIST)
    assert (done.code, done.stderr) == (0, f"mpijobs.kubeflow.org are not among these: {NO_JOBS}\n")
    assert f"pod/{POD}" in done.stdout
    answer = json.loads(mlpack(*LIST, "-o", "json").stdout)
    assert answer["unseen"] == {"mpijobs.kubeflow.org": NO_JOBS}
    assert [deployment["workload"] for deployment in answer["deployments"]] == [f"pod/{POD}"]


def test_status_without_package_lists_all_deployments(mlpack: Mlpack, life: Life) -> None:
    assert mlpack("deploy", "hello-mpi", "-n", "team", "--yes", "--no-verify", "--no-wait").code == 0
    (row,) = mlpack("status", "-A", "-o", "json").json["deployments"]
    assert sorted(row) == sorted(
        ["package", "namespace", "workload", "digest", "version", "deployedBy", "created", "ended"]
    )
    assert (row["package"], row["workload"], row["ended"]) == ("hello-mpi", f"mpijob/{JOB}", None)
    assert mlpack("status", "-A", "--watch").code == 2
    assert life.calls

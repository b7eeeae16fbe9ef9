"""Tests of `mlpack status`: its text, JSON and exit codes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.fake_cluster import item
from tests.life import ENDED_WITH_3, JOB, at_a_terminal, launcher, worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

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


def test_status_reads_last_lines_from_log_without_termination_message(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects.append(launcher(state={"terminated": {"exitCode": 1}}, phase="Failed"))
    life.end("Failed", reason="BackoffLimitExceeded")
    life.logs[f"{JOB}-launcher-0"] = "out of the log\n"
    assert "  | out of the log\n" in mlpack(*STATUS).stdout
    assert f"--namespace=team logs {JOB}-launcher-0 --container=launcher --timestamps --tail=12" in life.calls


def test_status_reports_namespace_that_is_being_deleted(mlpack: Mlpack, life: Life) -> None:
    life.objects.append(item("Namespace", "team", metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"}))
    done = mlpack(*STATUS)
    assert (done.code, done.stdout) == (7, f"{MPIJOB}  absent: its namespace team is being deleted\n")


def test_status_reports_missing_namespace(mlpack: Mlpack, life: Life) -> None:
    life.has_namespace = False
    done = mlpack(*STATUS)
    assert (done.code, done.stdout) == (7, f"{MPIJOB}  absent: namespace team not found\n")


KILLED = "processes were killed for taking more memory than their worker may, in: "


def test_status_warns_about_killed_process_on_worker_reported_by_launcher(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    written = f"{KILLED}somebody-elses {JOB}-worker-0 {JOB}-worker-1, and 7 more\n"
    life.objects.append(launcher(state={"terminated": {"exitCode": 0, "message": written}}, phase="Succeeded"))
    worker_spec = life.find("MPIJob", JOB)["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    worker_spec["containers"][0]["resources"] = {"limits": {"memory": "64Mi"}}
    life.end()
    message = (
        f"pod/{JOB}-worker-0 (and 8 more): a process in it was killed for using more memory than the limit of 64Mi, "
        "and the job still ended with exit code 0\n"
        "  hint: check that the result is complete; raise the memory limit in mlops.env, or reduce the memory use\n"
    )
    done = mlpack(*STATUS)
    assert (done.code, done.stdout.count("was killed")) == (0, 1)
    assert done.stdout.endswith(message)
    watched = mlpack(*STATUS, "--watch")
    assert (watched.code, watched.stderr.splitlines(keepends=True)[1:3]) == (0, message.splitlines(keepends=True))


@pytest.mark.parametrize(
    "message", ["done", f"{KILLED}\x1b[2J", f"{KILLED}somebody-elses", f"{KILLED}{JOB}-worker-0\nx"]
)
def test_status_ignores_other_termination_messages_of_launcher(mlpack: Mlpack, life: Life, message: str) -> None:
    life.deploy()
    life.objects.append(launcher(state={"terminated": {"exitCode": 0, "message": message}}, phase="Succeeded"))
    life.end()
    done = mlpack(*STATUS)
    assert (done.code, "killed" in done.stdout) == (0, False)


def test_status_exits_with_7_when_cluster_does_not_answer(mlpack: Mlpack, life: Life) -> None:
    life.go_silent()
    done = mlpack(*STATUS)
    assert done.code == 7
    assert done.stderr == (
        "error: the cluster does not answer: Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout\n"
        "hint: kubectl cluster-info\n"
    )


def test_status_watch_distinguishes_outage_from_refusal(mlpack: Mlpack, life: Life) -> None:
    def forbid() -> None:
        life.answer()
        life.denied.add("get mpijobs")

    life.deploy()
    life.moments = [life.start, life.go_silent, forbid, lambda: None, life.denied.clear, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    lines = [line[7:] for line in done.stderr.splitlines()]
    assert lines[1].startswith("the cluster does not answer (Unable to connect")
    why = 'mpijobs.kubeflow.org is forbidden: User "me" cannot get resource "mpijobs" in API group "" in the namespace'
    assert lines[2] == f"the cluster does not report the state ({why}); retrying until it does"
    assert lines[3] == "the cluster is reachable again"


def test_status_watch_prints_hint_once(mlpack: Mlpack, life: Life) -> None:
    hint = "hint: is mpi-operator running? kubectl get pods --all-namespaces | grep mpi-operator\n"
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.moments = [lambda: None, lambda: None, life.start, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    assert done.stderr.count(hint) == 1


def test_status_watch_draws_table_on_terminal(mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch)
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.logs[f"{JOB}-launcher-0"] = "2026-11-21T00:00:01Z epoch 1\n"
    life.moments = [lambda: None, life.start, life.go_silent, life.answer, life.end]
    done = mlpack(*STATUS, "--watch")
    assert done.code == 0
    for text in (
        f"{MPIJOB}  stuck  00:0",
        "  hint: is mpi-operator running?",
        "POD ",
        f"{JOB}-worker-1",
        "log: epoch 1",
        "the cluster has not answered for 2 s; retrying until it does",
        "Ctrl-C leaves it running",
        f"{MPIJOB} has succeeded",
    ):
        assert text in done.stderr


@pytest.mark.usefixtures("life")
def test_status_without_operator_names_install_command(mlpack: Mlpack, life: Life) -> None:
    del life.served["kubeflow.org/v2beta1"]
    done = mlpack(*STATUS)
    assert (done.code, done.stderr) == (
        7,
        (
            "error: the cluster does not serve mpijobs.kubeflow.org: its operator is not installed\n"
            "hint: mlpack operator install mpi\n"
        ),
    )


NO_EVENTS = 'events is forbidden: User "me" cannot list resource "events" in API group "" in the namespace'
UNSEEN = f"reasons may be missing: {NO_EVENTS}\n"


def test_status_works_without_permission_to_list_events(mlpack: Mlpack, running: Life) -> None:
    running.denied.add("list events")
    for output in ((), ("-o", "json")):
        done = mlpack(*STATUS, *output)
        assert (done.code, done.stderr) == (0, UNSEEN)
        assert "pods: 3 running" in done.stdout


def test_status_works_without_permission_to_get_launcher_job(mlpack: Mlpack, running: Life) -> None:
    running.denied.add("get jobs")
    done = mlpack(*STATUS)
    assert done.code == 0
    assert done.stderr.startswith(
        'reasons may be missing: jobs.batch is forbidden: User "me" cannot get resource "jobs"'
    )
    running.denied.add("get mpijobs")
    done = mlpack(*STATUS)
    assert done.code == 7
    assert 'error: mpijobs.kubeflow.org is forbidden: User "me" cannot get resource "mpijobs"' in done.stderr


def test_status_explains_unprocessed_job_without_permission_to_list_events(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["creationTimestamp"] = "2026-11-21T00:00:00Z"
    life.denied.add("list events")
    done = mlpack(*STATUS)
    why = "mpi-operator is not running, or it rejected the job in an event that you are not allowed to see"
    assert (done.code, done.stdout.splitlines()[0]) == (7, f"{MPIJOB}  stuck: no controller has reacted: {why}")


LOSS = "".join(f'{{"step": {step}, "loss": {8 - step}}}\n' for step in range(8))


def test_status_draws_numbers_of_the_log(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-launcher-0"] = f"starting\n{LOSS}"
    done = mlpack(*STATUS, "--plot")
    assert done.code == 0
    name, *drawing = done.stdout.splitlines()[5:]
    assert name == "loss"
    assert [line[0] for line in drawing[:8]] == ["8", *"      ", "1"]
    assert drawing[8].split() == ["0", "7"]
    assert [line.split() for line in drawing[9:]] == [
        ["NAME", "POD", "STEP", "LAST", "LOWEST", "HIGHEST"],
        ["loss", f"{JOB}-launcher-0", "7", "1", "1", "8"],
    ]


def test_status_names_the_expected_lines_if_the_log_has_no_numbers(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-launcher-0"] = "starting\n"
    done = mlpack(*STATUS, "--plot")
    assert done.code == 0
    assert done.stderr.startswith(f"no numbers in the log of {MPIJOB}: expected lines of JSON with a step")


def test_status_returns_points_as_json(mlpack: Mlpack, running: Life) -> None:
    running.logs[f"{JOB}-launcher-0"] = LOSS
    assert json.loads(mlpack(*STATUS, "-o", "json").stdout)["curves"] is None
    (curve,) = json.loads(mlpack(*STATUS, "--plot", "-o", "json").stdout)["curves"]
    assert (curve["name"], curve["pod"], curve["count"]) == ("loss", f"{JOB}-launcher-0", 8)
    assert curve["points"] == [[step, 8.0 - step] for step in range(8)]


def test_status_refuses_to_plot_while_it_watches(mlpack: Mlpack) -> None:
    done = mlpack(*STATUS, "--plot", "--watch")
    assert (done.code, done.stderr.splitlines()[0]) == (2, "error: --watch and --plot cannot be combined")

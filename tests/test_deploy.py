"""What deploy says of what it meets, and of how it ends."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

import pytest

from packager.cluster import deploy as deploying
from tests.life import ENDED_WITH_3, JOB, POD, at_a_terminal, launcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]

DEPLOY = ("deploy", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"


def applied(life: Life) -> list[str]:
    return [call for call in life.calls if call.startswith("apply") and "--dry-run" not in call]


def test_it_is_followed_to_a_good_end(mlpack: Mlpack, life: Life) -> None:
    life.moments = [lambda: None, life.start, life.end]
    done = mlpack(*DEPLOY)
    assert (done.code, done.stdout) == (0, "")
    said = [re.sub(r"^\d\d:\d\d  ", "", line) for line in done.stderr.splitlines()]
    assert said == [
        f"{MPIJOB} is deployed in the namespace team",
        "pending: no pods yet",
        "running: pods: 3 running",
        f"{MPIJOB} has succeeded",
        "  its log:     mlpack logs hello-mpi -n team",
        "  remove it:   mlpack delete hello-mpi -n team",
    ]


def test_results_that_stay_are_pointed_at(mlpack: Mlpack, life: Life) -> None:
    spec = next(each for each in life.overlays["multi-node"] if each["kind"] == "MPIJob")["spec"]
    volumes = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"]
    output = next(volume for volume in volumes if volume["name"] == "output")
    output["persistentVolumeClaim"] = {"claimName": "results"}
    del output["emptyDir"]
    life.moments = [life.end]
    done = mlpack(*DEPLOY)
    assert done.code == 0
    assert "  its results: mlpack results hello-mpi DIR -n team\n" in done.stderr


def test_without_waiting_it_says_how_to_look(mlpack: Mlpack, life: Life) -> None:
    done = mlpack(*DEPLOY, "--no-wait", "--overlay", "single-node")
    assert done.code == 0
    assert done.stderr == (
        f"pod/{POD} is deployed in the namespace team\n"
        "how it goes: mlpack status hello-mpi -n team --overlay single-node\n"
    )
    assert len(applied(life)) == 1


def test_verbose_shows_each_command(mlpack: Mlpack, life: Life) -> None:
    done = mlpack(*DEPLOY, "--no-wait", "-v")
    assert f"+ kubectl --namespace=team get mpijobs.kubeflow.org/{JOB} " in done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("+ kubectl kustomize ")] != []
    assert len(applied(life)) == 1


def test_a_job_that_is_there_as_the_package_says_is_gone_on_with(mlpack: Mlpack, life: Life) -> None:
    assert mlpack(*DEPLOY, "--no-wait").code == 0
    again = mlpack(*DEPLOY, "--no-wait")
    assert again.code == 0
    assert again.stderr.startswith(f"{MPIJOB} is there already, just as the package says\n")
    assert not any(call.startswith("delete") for call in life.calls)


def test_replace_deletes_even_what_is_the_same(mlpack: Mlpack, life: Life) -> None:
    assert mlpack(*DEPLOY, "--no-wait").code == 0
    again = mlpack(*DEPLOY, "--no-wait", "--replace")
    assert again.code == 0
    assert again.stderr.startswith(f"waiting until the earlier {MPIJOB} is gone\n")
    assert [call.split()[1] for call in life.calls if call.startswith("delete")] == [f"mpijobs.kubeflow.org/{JOB}"]


def test_a_finished_job_names_its_author_and_does_not_run_again(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packager.cli.target.who", lambda: "ann@desk")
    assert mlpack(*DEPLOY, "--no-wait").code == 0
    life.end()
    again = mlpack(*DEPLOY)
    assert again.code == 1
    assert again.stderr == (
        f"error: {MPIJOB}, deployed by ann@desk, has run already, and a finished job does not run again; "
        "nothing was done\nhint: --replace deletes it and deploys anew\n"
    )


def edit(life: Life, count: int) -> None:
    """Change so many values of what the overlay applies."""
    env = next(each for each in life.overlays["multi-node"] if each["metadata"]["name"].startswith("hello-mpi-env"))
    env["data"] |= {f"KEY_{number:02}": "new" for number in range(count)}


def test_a_different_job_is_shown_and_left_alone(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    edit(life, 1)
    done = mlpack(*DEPLOY)
    assert done.code == 1
    assert done.stderr == (
        f"  configmap/hello-mpi-env-multi-node  data.KEY_00: nothing -> new\n"
        f"error: {MPIJOB} is there already and is different; its pods cannot be changed while it exists; "
        "nothing was done\nhint: --replace deletes it and deploys anew\n"
    )
    assert applied(life) == []


def test_an_object_that_is_new_is_shown_as_such(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.objects = [each for each in life.objects if not each["metadata"]["name"].startswith("hello-mpi-env")]
    done = mlpack(*DEPLOY)
    assert done.code == 1
    assert done.stderr.startswith("  configmap/hello-mpi-env-multi-node  is new\n")


@pytest.mark.parametrize(("count", "more"), [(21, "  and 1 more difference"), (23, "  and 3 more differences")])
def test_of_many_differences_twenty_are_shown(mlpack: Mlpack, life: Life, count: int, more: str) -> None:
    life.deploy()
    edit(life, count)
    done = mlpack(*DEPLOY)
    shown = done.stderr.splitlines()
    assert shown[19].startswith("  configmap/hello-mpi-env-multi-node  data.KEY_19: ")
    assert shown[20] == more


def test_on_a_terminal_it_asks_and_takes_no_for_an_answer(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.deploy()
    life.end()
    at_a_terminal(monkeypatch, typed="\n")
    done = mlpack(*DEPLOY)
    assert done.code == 1
    assert done.stderr.startswith(f"{MPIJOB} has run already, and a finished job does not run again.\n")
    assert "Delete it and deploy anew? [y/N]:" in done.stderr
    assert done.stderr.endswith("error: nothing was done\n")
    assert not any(call.startswith("delete") for call in life.calls)


def test_a_job_that_is_going_is_waited_for(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["deletionTimestamp"] = "2026-11-21T00:01:00Z"
    done = mlpack(*DEPLOY, "--no-wait")
    assert done.code == 0
    assert done.stderr.startswith(f"waiting until the earlier {MPIJOB} is gone\n")


def test_a_job_that_does_not_go_in_time_is_8(mlpack: Mlpack, life: Life) -> None:
    life.deploy()["metadata"]["deletionTimestamp"] = "2026-11-21T00:01:00Z"
    life.refused["delete"] = f"error: timed out waiting for the condition on mpijobs/{JOB}"
    done = mlpack(*DEPLOY, "--no-wait")
    assert done.code == 8
    assert done.stderr.endswith(
        f"error: mpijobs.kubeflow.org/{JOB}: not gone after 300 s\nhint: run it again to wait on\n"
    )


BACK = (
    "  come back:  mlpack deploy hello-mpi -n team\n"
    "  look at it: mlpack status hello-mpi -n team\n"
    "  remove it:  mlpack delete hello-mpi -n team\n"
    "mlpack: stopped by SIGINT\n"
)


def test_ctrl_c_while_it_waits_leaves_it_running(mlpack: Mlpack, life: Life) -> None:
    life.moments = [lambda: signal.raise_signal(signal.SIGINT)]
    done = mlpack(*DEPLOY)
    assert done.code == 130
    assert done.stderr.endswith(f"\n\ndetached; {MPIJOB} goes on in the cluster\n{BACK}")


@pytest.mark.usefixtures("life")
def test_ctrl_c_while_it_applies_says_that_some_may_be_missing(mlpack: Mlpack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploying, "apply", lambda *_arguments, **_options: signal.raise_signal(signal.SIGINT))
    done = mlpack(*DEPLOY)
    assert done.code == 130
    assert done.stderr == (
        f"\nstopped before {MPIJOB} was known to be applied whole; deploying again completes it\n{BACK}"
    )


def test_a_failure_shows_its_reason_its_last_lines_and_where_the_rest_is(mlpack: Mlpack, life: Life) -> None:
    def fail() -> None:
        life.objects.append(launcher(state=ENDED_WITH_3, phase="Failed"))
        life.end("Failed", reason="BackoffLimitExceeded")

    life.moments = [fail]
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert done.stderr.endswith(
        f"pod/{JOB}-launcher-0: container launcher ended with exit code 3\n"
        "  | epoch 1\n"
        "  | no such file: train.csv\n"
        f"error: {MPIJOB} has failed: the launcher has failed\n"
        "hint: the whole log: mlpack logs hello-mpi -n team\n"
    )


def test_what_only_a_person_can_mend_is_left_as_it_is(mlpack: Mlpack, life: Life) -> None:
    refused = {
        "involvedObject": {"uid": f"MPIJob-{JOB}"},
        "metadata": {"name": "e"},
        "type": "Warning",
        "reason": "ValidationError",
        "message": "Found validation errors: spec.slotsPerWorker: must be positive",
    }
    life.objects.append({"kind": "Event", **refused})
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert done.stderr.endswith(
        f"{MPIJOB}: mpi-operator refuses the job: spec.slotsPerWorker: must be positive\n"
        "  hint: correct the job in the overlay, then deploy it with --replace\n"
        f"error: {MPIJOB} cannot run: ValidationError; it was left as it is\n"
        "hint: mend it and deploy again (--replace), or remove it: mlpack delete hello-mpi -n team\n"
    )


def test_what_may_pass_is_waited_for_no_longer_than_patience(mlpack: Mlpack, life: Life) -> None:
    full = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient cpu."}

    def wait_for_room() -> None:
        life.start()
        waiting = launcher(phase="Pending", conditions=[full], containerStatuses=[])
        life.objects = [each for each in life.objects if each["kind"] != "Pod"] + [waiting]

    life.moments = [wait_for_room]
    done = mlpack(*DEPLOY, "--patience", "0s")
    assert done.code == 7
    assert "stuck: no node can take it: 0/1 nodes are available: 1 Insufficient cpu\n" in done.stderr
    assert f"error: {MPIJOB} cannot run: Unschedulable; it was left as it is\n" in done.stderr


def test_a_job_that_somebody_deletes_ends_the_wait(mlpack: Mlpack, life: Life) -> None:
    life.moments = [life.start, life.vanish]
    done = mlpack(*DEPLOY)
    assert done.code == 7
    assert done.stderr.endswith(
        f"error: {MPIJOB}: it is gone: somebody has deleted it\nhint: mlpack status hello-mpi -n team\n"
    )


def test_a_timeout_is_8_and_says_how_to_come_back(mlpack: Mlpack, life: Life) -> None:
    life.moments = [life.start]
    done = mlpack(*DEPLOY, "--timeout", "0s")
    assert done.code == 8
    assert done.stderr.endswith(
        f"error: {MPIJOB} is still running after 0 s: pods: 3 running\n"
        "hint: it goes on in the cluster; come back with `mlpack status hello-mpi -n team`\n"
    )


def test_what_the_server_refuses_is_7_and_nothing_is_made(mlpack: Mlpack, life: Life) -> None:
    life.refused["apply"] = 'Error from server (NotFound): namespaces "team" not found'
    done = mlpack(*DEPLOY)
    assert (done.code, done.stderr) == (
        7,
        "error: there is no namespace team\nhint: kubectl create namespace team\n",
    )
    assert life.objects == []

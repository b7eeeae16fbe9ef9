"""Tests of the script that starts the program of a pod, and fails if the program has worked alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import TEMPLATES, render
from packager.modelspec.load import load
from packager.workloads.program import MEET
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.conftest import Outcome

SCRIPT = TEMPLATES["jobset"] / "quickstart/common/FRAMEWORK/k8s/mlops/base/meet.sh"
CONNECT = "import socket, time; s = socket.create_connection(('PEER', PORT))"
FAILED = 1


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    """Return another pod of the set: something that listens at another address of this machine.

    A pod has sockets of its own. This machine remembers those of earlier tests, so each test takes another address.
    """
    numbers = os.urandom(3)
    address = ".".join(("127", *(str(number % 250 + 2) for number in numbers)))
    with socket.create_server((address, 0)) as server:
        yield server


def run(peer: socket.socket, *words: str, index: str = "1", **variables: str) -> subprocess.CompletedProcess[str]:
    address, port = peer.getsockname()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "JOBSET_NAME": address,
        "JOB_COMPLETION_INDEX": index,
        "PET_NPROC_PER_NODE": "1",
        **variables,
    }
    argv = ["/bin/sh", str(SCRIPT), *(word.replace("PORT", str(port)).replace("PEER", address) for word in words)]
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=30)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (f"{CONNECT}; time.sleep(1.5)", 0),
        (CONNECT, 0),
        (f"{CONNECT}; time.sleep(0.2); s.shutdown(2); s.close(); time.sleep(0.4)", 0),
        ("import time; time.sleep(0.3)", FAILED),  # ignores what the environment says
        (f"{CONNECT.replace('PORT', '1')}; time.sleep(0.4)", FAILED),  # the wrong port
        ("import socket; s = socket.socket(); s.settimeout(0.3); s.connect_ex(('PEER', 9)); s.close()", FAILED),
        (f"{CONNECT}; time.sleep(0.4); raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    ],
)
def test_program_without_a_connection_to_another_pod_fails(peer: socket.socket, program: str, code: int) -> None:
    done = run(peer, "followers", "python3", "-c", program)
    assert done.returncode == code
    assert ("it has worked alone" in done.stderr) is (code == FAILED and "Error" not in done.stderr)


def test_pods_that_meet_without_the_first_one_fail(peer: socket.socket) -> None:
    """With another address of the first pod, they make a world of their own."""
    program = f"{CONNECT}; time.sleep(0.3)"
    done = run(peer, "followers", "python3", "-c", program, PET_MASTER_ADDR="127.254.254.254")
    assert (done.returncode, "without a connection to 127.254.254.254: it has worked alone" in done.stderr) == (
        FAILED,
        True,
    )
    coordinator = f"{peer.getsockname()[0]}:8476"
    assert run(peer, "followers", "python3", "-c", program, JAX_COORDINATOR_ADDRESS=coordinator).returncode == 0


@pytest.mark.parametrize(
    ("pods", "index", "variables", "code"),
    [
        ("followers", "0", {}, 0),
        ("all", "0", {}, FAILED),
        ("none", "1", {}, 0),
        ("followers", "1", {"ELASTIC_MIN": "1"}, 0),
        ("followers", "1", {"JOBSET_NAME": "no-such-set.invalid"}, FAILED),
    ],
)
def test_pods_that_others_connect_to_are_not_checked(
    peer: socket.socket, pods: str, index: str, variables: dict[str, str], code: int
) -> None:
    done = run(peer, pods, "sh", "-c", "exit 0", index=index, **variables)
    assert done.returncode == code


def test_connection_of_torchrun_itself_does_not_count(peer: socket.socket, tmp_path: Path) -> None:
    """A program that torchrun starts, and that ignores the environment, works alone, although torchrun is connected."""
    address, port = peer.getsockname()
    torchrun = tmp_path / "torchrun"
    own = CONNECT.replace("PORT", str(port)).replace("PEER", address)
    torchrun.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\n{own}\nsys.exit(subprocess.call(sys.argv[2:], close_fds=True))\n"
    )
    torchrun.chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"
    alone = run(peer, "followers", "python3", "-c", "import time; time.sleep(0.3)", PET_NPROC_PER_NODE="2", PATH=path)
    assert (alone.returncode, "it has worked alone" in alone.stderr) == (FAILED, True)
    words = ("followers", "python3", "-c", f"{CONNECT}; time.sleep(1.5)")
    assert run(peer, *words, PET_NPROC_PER_NODE="2", PATH=path).returncode == 0


def test_several_processes_need_torchrun(peer: socket.socket) -> None:
    done = run(peer, "followers", "python3", "-c", "", PET_NPROC_PER_NODE="8", PATH="/nowhere")
    assert done.stderr == "meet.sh: 8 processes on a node need torchrun, which the image does not have\n"
    assert done.returncode == 1
    itself = run(peer, "none", "python3", "-m", "torch.distributed.run", "train.py", PET_NPROC_PER_NODE="8")
    assert "torchrun" not in itself.stderr


def rendered(folder: Path, values: str) -> tuple[dict[str, Any], str]:
    """Return the first role's container of the demo's overlay with these values, and the README of its package."""
    loaded = load(demo.write(folder, demo.changed(f"{{kind: MPIJob}} => {{{values}}}")))
    files = {
        entry.path: bytes(entry.content) for entry in render(plan(loaded, loaded.spec.variants[0], Options())).entries
    }
    (manifest,) = (content for path, content in files.items() if path.endswith("/jobset.yaml"))
    job = yaml.safe_load(manifest)["spec"]["replicatedJobs"][0]["template"]["spec"]
    scripts = {path.rpartition("/")[2] for path in files}
    container: dict[str, Any] = job["template"]["spec"]["containers"][0]
    assert ("meet.sh" in scripts) is (container["command"][:1] == [MEET])
    return container, files["README.md"].decode()


NODES = "kind: JobSet, rendezvous: torch, roles: {node: {replicas: 2}}"
PLAIN = "kind: JobSet, rendezvous: torch, roles: {node: {replicas: 2, command: [python3, train.py, $(RANK)]}}"


@pytest.mark.parametrize(
    ("values", "command", "is_checked"),
    [
        (PLAIN, [MEET, "followers", "python3", "train.py", "$(RANK)"], True),
        (f"{PLAIN}, checks_world: false", [MEET, "none", "python3", "train.py", "$(RANK)"], False),
        (
            "kind: JobSet, rendezvous: jax, roles: {node: {replicas: 2, command: [python3, train.py]}}",
            [MEET, "followers", "python3", "train.py"],
            True,
        ),
        (
            "kind: JobSet, rendezvous: none, roles: {a: {replicas: 2, command: [python3]}}, success: [a]",
            ["python3"],
            False,
        ),
    ],
)
def test_command_is_started_by_the_script(tmp_path: Path, values: str, command: list[str], *, is_checked: bool) -> None:
    container, readme = rendered(tmp_path, values)
    assert container["command"] == command
    assert ("A pod whose program has never been connected to another one fails" in readme) is is_checked
    assert ("It is not checked whether the pods have found each other" in readme) is not is_checked


def test_plain_command_has_the_variables_of_torchrun(tmp_path: Path) -> None:
    container, _ = rendered(tmp_path, PLAIN)
    variables = {entry["name"]: entry.get("value") for entry in container["env"]}
    expected = {"MASTER_PORT": "29500", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert {key: variables[key] for key in expected} == expected
    assert {"MASTER_ADDR", "RANK", "NODE_RANK"} <= variables.keys()
    script, _ = rendered(tmp_path / "script", NODES)
    assert "RANK" not in [entry["name"] for entry in script["env"]]


def test_role_has_its_own_image(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    image = "image: {registry: reg.example, name: rollout, tag: v2}"
    roles = f"{{trainer: {{}}, rollout: {{{image}}}}}"
    values = f"kind: JobSet, rendezvous: none, roles: {roles}, success: [trainer]"
    demo.write(tmp_path, demo.changed(f"{{kind: MPIJob}} => {{{values}}}"))
    assert mlpack("lint", "spec.yaml").code == 0
    container, _ = rendered(tmp_path / "built", values)
    assert container["image"] == "REGISTRY/IMAGE"
    taken = demo.changed(f"{{kind: MPIJob}} => {{{values}, environment: {{ROLLOUT_IMAGE: x}}}}")
    demo.write(tmp_path, taken)
    assert "ROLLOUT_IMAGE cannot be set for the overlay" in mlpack("lint", "spec.yaml").stdout


def test_lint_names_roles_whose_meeting_is_not_checked(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    values = "kind: JobSet, rendezvous: jax, roles: {node: {replicas: 2, command: []}}"
    demo.write(tmp_path, demo.changed(f"{{kind: MPIJob}} => {{{values}}}"))
    message = "it is not checked whether the pods of node meet: they run the image's own entrypoint"
    done = mlpack("lint", "spec.yaml")
    assert message in done.stdout + done.stderr
    demo.write(tmp_path, demo.changed(f"{{kind: MPIJob}} => {{{values}, checks_world: false}}"))
    done = mlpack("lint", "spec.yaml")
    assert message not in done.stdout + done.stderr


def test_attempt_to_connect_does_not_count(peer: socket.socket) -> None:
    """A pod behind a network policy answers nothing; here, one whose queue of connections is full."""
    address = peer.getsockname()[0]
    with socket.socket() as busy, socket.socket() as first, socket.socket() as second:
        busy.bind((address, 0))
        busy.listen(0)
        for waiting in (first, second):
            waiting.bind((address, 0))
            waiting.setblocking(False)
            waiting.connect_ex(busy.getsockname())
        target = f"('{address}', {busy.getsockname()[1]})"
        program = f"import socket; s = socket.socket(); s.settimeout(0.6); print(s.connect_ex({target})); s.close()"
        done = run(peer, "followers", "python3", "-c", program)
    assert (done.returncode, done.stdout != "0\n", "it has worked alone" in done.stderr) == (FAILED, True, True)

"""Tests that containers wait after their programs until results are copied, with the exit codes of the programs."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from packager.cluster.hold import hold_of
from packager.cluster.manifests import Manifests, load
from packager.cluster.supervisor import with_hold
from tests import tools
from tests.life import JOB, rendered

Start = Callable[..., subprocess.Popen[str]]


INDEXED = {"JOB_COMPLETION_INDEX": "1"}


def manifests(overlay: str, change: Callable[[dict[str, Any]], object] = lambda _workload: None) -> Manifests:
    """Return the manifests of an overlay of hello-mpi after a change of its workload."""
    objects = rendered(overlay)
    change(objects[-1])
    return load(yaml.safe_dump_all(objects), overlay)


def command(overlay: str = "single-node", seconds: int = 60, **fields: Any) -> list[str]:
    """Return the command of a held container."""

    def change(workload: dict[str, Any]) -> None:
        workload["spec"].update(fields)

    (container,) = with_hold(manifests(overlay, change), seconds).workload["spec"]["containers"]
    return list(container["command"])


@pytest.fixture(params=["sh", pytest.param("busybox", marks=pytest.mark.thorough)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """A function that starts a shell script as a held program, in each shell that images have."""
    shell = [tools.require("busybox"), "sh"] if request.param == "busybox" else [request.param]

    def start(
        script: str, *, seconds: int = 60, variables: dict[str, str] | None = None, before: str = "", **fields: Any
    ) -> Any:
        _, _, text, *words = command(seconds=seconds, **fields)
        begin = "read -r begun rest </proc/uptime\n"
        assert begin in text
        text = text.replace(begin, f"{begin}{before}\n")
        argv = [*shell, "-c", text.replace("/run/mlpack", str(tmp_path)), *words[:5], "sh", "-c", script]
        environment = {**os.environ, **(variables or {})}
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)

    return start


def until(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"there is no {path.name}"
        time.sleep(0.02)


@pytest.mark.parametrize("code", [0, 3])
def test_held_program_keeps_its_exit_code_until_released(start: Start, tmp_path: Path, code: int) -> None:
    with start(f"echo here; exit {code}") as running:
        until(tmp_path / "program/ended")
        assert (tmp_path / "program/ended").read_text() == f"{code}\n"
        assert running.poll() is None
        (tmp_path / "program/released").touch()
        assert running.communicate(timeout=60)[0] == "here\n"
    assert running.returncode == code


def test_hold_ends_by_itself(start: Start, tmp_path: Path) -> None:
    with start("exit 4", seconds=1) as running:
        assert running.wait(timeout=60) == 4
    assert (tmp_path / "program/ended").exists()


def test_terminated_program_is_not_held(start: Start, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with start(f"trap 'exit 7' TERM; touch {ready}; while :; do sleep 0.1; done") as running:
        until(ready)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 7
    assert not (tmp_path / "program/ended").exists()


def test_terminated_hold_ends_at_once(start: Start, tmp_path: Path) -> None:
    with start("exit 5") as running:
        until(tmp_path / "program/ended")
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 5


def test_other_indexes_of_a_set_are_not_held(start: Start, tmp_path: Path) -> None:
    with start("exit 6", variables=INDEXED) as running:
        assert running.wait(timeout=60) == 6
    assert not (tmp_path / "program/ended").exists()


def test_program_is_not_held_shortly_before_a_deadline(start: Start) -> None:
    with start("exit 8", activeDeadlineSeconds=30) as running:
        assert running.wait(timeout=60) == 8


def test_launcher_of_an_mpijob_is_held_and_its_workers_are_not() -> None:
    plain = manifests("multi-node")
    held = with_hold(plain, 90)
    roles = held.workload["spec"]["mpiReplicaSpecs"]
    before = plain.workload["spec"]["mpiReplicaSpecs"]
    (launcher,) = roles["Launcher"]["template"]["spec"]["containers"]
    (original,) = before["Launcher"]["template"]["spec"]["containers"]
    assert launcher["command"][3:] == ["mlpack-supervisor", "hold", "90", "0", "first", *original["command"]]
    assert roles["Worker"] == before["Worker"]
    assert (hold_of(held.workload), hold_of(plain.workload)) == (90, 0)
    assert held.digest == plain.digest
    assert [item for item in held.objects if item["kind"] == "MPIJob"] == [held.workload]
    assert json.dumps(plain.workload) == json.dumps(manifests("multi-node").workload)
    assert held.name == JOB


@pytest.mark.parametrize("field", ["command", "volumeMounts"])
def test_container_without_a_command_or_a_place_for_files_is_not_held(field: str) -> None:
    plain = manifests("single-node", lambda pod: pod["spec"]["containers"][0].pop(field))
    assert with_hold(plain, 60) == plain

"""Tests that the programs of pods are started and stopped by a script, with code in a folder of its own."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from packager.base.errors import UsageError
from packager.cluster.manifests import Manifests, load
from packager.cluster.ownership import DEV
from packager.cluster.supervisor import MARK, SCRIPT, STATE, code_folder, for_dev, mode_of
from tests import tools
from tests.life import rendered

Start = Callable[[str], subprocess.Popen[str]]


def manifests(overlay: str, change: Callable[[list[dict[str, Any]]], object] = lambda _objects: None) -> Manifests:
    """Return the manifests of an overlay of hello-mpi after a change of its objects."""
    objects = rendered(overlay)
    change(objects)
    return load(yaml.safe_dump_all(objects), overlay)


def digest(manifests: Manifests) -> str:
    return str(for_dev(manifests).workload["metadata"]["annotations"][DEV])


@pytest.fixture(params=["sh", pytest.param("busybox", marks=pytest.mark.thorough)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """A function that starts the script for a shell script as its program, in each shell that images have."""
    shell = [tools.require("busybox"), "sh"] if request.param == "busybox" else [request.param]

    def start(program: str) -> subprocess.Popen[str]:
        argv = [
            *shell,
            "-c",
            SCRIPT.replace(STATE, str(tmp_path / "dev")),
            MARK,
            "dev",
            "0",
            "0",
            "all",
            "sh",
            "-c",
            program,
        ]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    return start


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def go(folder: Path) -> None:
    """Let the script start its program."""
    until((folder / "dev").is_dir)
    (folder / "dev/code").touch()
    (folder / "dev/go").touch()


def test_script_starts_program_again_and_reports_its_ends(start: Start, tmp_path: Path) -> None:
    with start("echo begun; exit 3") as running:
        assert running.stdout is not None
        for _ in range(2):
            go(tmp_path)
            assert running.stdout.readline() == "begun\n"
            assert running.stdout.readline() == "mlpack: the program has ended with exit code 3\n"
        assert not (tmp_path / "dev/program").exists()
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0


@pytest.mark.thorough
def test_script_ends_whenever_it_is_terminated(start: Start, tmp_path: Path) -> None:
    """A signal to a child that has still the trap of the script would be lost."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/code").touch()
    for step in range(60):
        with start("while :; do sleep 0.1; done") as running:
            time.sleep(step * 0.0003)
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=60) in (-signal.SIGTERM, 0, 128 + signal.SIGTERM)


def test_terminated_script_ends_its_program_and_has_its_exit_code(start: Start, tmp_path: Path) -> None:
    with start("trap 'exit 7' TERM; echo begun; while :; do sleep 0.1; done") as running:
        go(tmp_path)
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 7


def test_container_that_starts_again_starts_its_program_without_a_session(start: Start, tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/code").touch()
    with start("echo begun") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        running.send_signal(signal.SIGTERM)


def test_launcher_is_supervised_and_workers_only_get_code() -> None:
    plain = manifests("multi-node")
    workload = for_dev(plain).workload
    roles = workload["spec"]["mpiReplicaSpecs"]
    (launcher,) = roles["Launcher"]["template"]["spec"]["containers"]
    (original,) = plain.workload["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert mode_of(launcher) == ("dev", "0", "0", "all")
    assert launcher["command"][8:] == original["command"] + original.get("args", [])
    worker = roles["Worker"]["template"]["spec"]
    assert mode_of(worker["containers"][0]) == ()
    folder = code_folder(worker["containers"][0])
    assert folder is not None
    assert folder.endswith("/quickstart/scripts")
    assert worker["volumes"][-1] == {"name": "mlpack-supervisor", "emptyDir": {}}
    assert manifests("multi-node") == plain


def test_deadlines_are_removed() -> None:
    def change(objects: list[dict[str, Any]]) -> None:
        objects[-1]["spec"]["activeDeadlineSeconds"] = 60

    assert "activeDeadlineSeconds" not in for_dev(manifests("single-node", change)).workload["spec"]


def test_digest_depends_on_everything_except_code() -> None:
    def change_code(objects: list[dict[str, Any]]) -> None:
        (scripts,) = (item for item in objects if item["metadata"]["name"].startswith("hello-mpi-scripts"))
        scripts["data"] = {"hello.sh": "other", "new.sh": ""}
        (volume,) = (one for one in objects[-1]["spec"]["volumes"] if one["name"] == "scripts")
        volume["configMap"]["items"] = [{"key": "new.sh", "path": "new.sh"}]

    def change_values(objects: list[dict[str, Any]]) -> None:
        (values,) = (item for item in objects if item["metadata"]["name"].startswith("hello-mpi-env"))
        values["data"]["STEPS"] = "3"

    same = digest(manifests("single-node"))
    assert digest(manifests("single-node", change_code)) == same
    assert digest(manifests("single-node", change_values)) != same


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("command", "the container main has no command"),
        ("volumeMounts", "the container main has no folder /run/mlpack"),
    ],
)
def test_container_that_cannot_start_again_is_refused(field: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        for_dev(manifests("single-node", lambda objects: objects[-1]["spec"]["containers"][0].pop(field)))

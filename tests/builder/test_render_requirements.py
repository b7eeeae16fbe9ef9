"""The script of packages that installs Python packages: with pip itself, and without an index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from packager.builder.render import TEMPLATES
from tests.wheels import wheel

SCRIPT = "quickstart/common/FRAMEWORK/k8s/mlops/base/requirements.sh"
USE = [sys.executable, "-c", "import told; print(told.VALUE)"]


def start(
    tmp_path: Path, requirements: str, *command: str, pythonpath: str = "packages", **others: str
) -> subprocess.Popen[str]:
    """Start the script in the pod `tmp_path`, whose volume is the folder `output` in it."""
    scripts = tmp_path / "model/quickstart/scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / "requirements.txt").write_text(requirements)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "MODEL_DIR": str(tmp_path / "model"),
        "OUTPUT_DIR": str(tmp_path / "output"),
        "PYTHONPATH": ":".join(str(tmp_path / folder) for folder in pythonpath.split(":")),
        "PIP_INDEX_URL": "",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        "PIP_NO_INDEX": "1",
        **others,
    }
    argv = ["sh", str(TEMPLATES[""] / "package" / SCRIPT), "requirements.txt", *command]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, env=variables, stdout=pipe, stderr=pipe, text=True, cwd=tmp_path, start_new_session=True
    )


def install(
    tmp_path: Path, requirements: str, *command: str, pythonpath: str = "packages"
) -> subprocess.CompletedProcess[str]:
    with start(tmp_path, requirements, *command, pythonpath=pythonpath) as running:
        stdout, stderr = running.communicate(timeout=120)
    return subprocess.CompletedProcess(running.args, running.returncode, stdout, stderr)


def test_packages_are_installed_before_the_next_program(tmp_path: Path) -> None:
    done = install(tmp_path, wheel(tmp_path / "wheels", "first"), *USE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "first\n", "")


@pytest.mark.thorough
def test_container_that_starts_again_installs_nothing(tmp_path: Path) -> None:
    line = wheel(tmp_path / "wheels", "first")
    assert install(tmp_path, line).returncode == 0
    (tmp_path / "wheels/told-1-py3-none-any.whl").unlink()
    assert install(tmp_path, line, *USE).stdout == "first\n"


@pytest.mark.thorough
def test_other_requirements_replace_the_installed_packages(tmp_path: Path) -> None:
    assert install(tmp_path, wheel(tmp_path / "wheels", "first")).returncode == 0
    running = os.path.realpath(tmp_path / "packages")  # of a pod that still runs
    assert install(tmp_path, wheel(tmp_path / "wheels", "second"), *USE).stdout == "second\n"
    assert "first" in Path(running, "told.py").read_text()


@pytest.mark.thorough
def test_folder_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages/own.txt").write_text("of the user")
    done = install(tmp_path, wheel(tmp_path / "wheels", "first"), *USE)
    message = f"requirements: {tmp_path}/packages is a folder: PYTHONPATH in mlops.env must begin with a path"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{message} that is free\n")
    assert [path.name for path in tmp_path.glob("packages*")] == ["packages"]


PIP = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
folder.mkdir()
with open(os.environ["RUNS"], "a") as runs:
    runs.write("run\\n")
if "SLOW" in os.environ:
    (folder / "partial.py").touch()
    time.sleep(600)
time.sleep(0.3)
(folder / "told.py").write_text("VALUE = 'whole'")
"""
"""A program in the place of pip, which counts its runs."""


@pytest.mark.thorough
def test_several_pods_install_once(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/pip.py").write_text(PIP)
    runs = tmp_path / "runs"
    pods = [start(tmp_path, "", *USE, pythonpath=f"packages-{number}:pip", RUNS=str(runs)) for number in range(4)]
    assert [pod.communicate(timeout=120) for pod in pods] == [("whole\n", "")] * 4
    assert runs.read_text() == "run\n"


@pytest.mark.thorough
def test_pod_that_is_killed_while_it_installs_leaves_nothing_to_others(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip/pip.py").write_text(PIP)
    runs = tmp_path / "runs"
    with start(tmp_path, "", *USE, pythonpath="packages:pip", RUNS=str(runs), SLOW="1") as killed:
        while not list(tmp_path.glob("output/.mlpack-packages/*.part/partial.py")):
            time.sleep(0.01)
        waiting = start(tmp_path, "", *USE, pythonpath="others:pip", RUNS=str(runs))
        time.sleep(0.2)
        assert waiting.poll() is None
        os.killpg(killed.pid, signal.SIGKILL)
    assert waiting.communicate(timeout=120) == ("whole\n", "")
    assert runs.read_text() == "run\n" * 2
    assert not list(tmp_path.rglob("partial.py"))


@pytest.mark.thorough
def test_wheels_of_the_package_are_installed(tmp_path: Path) -> None:
    folder = "quickstart/scripts"
    (tmp_path / "model" / folder).mkdir(parents=True)
    assert install(tmp_path, wheel(tmp_path / "model" / folder / "wheels", "carried"), *USE).stdout == "carried\n"


def test_other_file_than_the_listed_one_ends_the_pod(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "first")
    done = install(tmp_path, f"told==1 --hash=sha256:{'0' * 64}\n", *USE)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "HASHES" in done.stderr or "No matching distribution" in done.stderr
    assert not (tmp_path / "packages/told.py").exists()

"""The script of packages that installs Python packages: with pip itself, and without an index."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES
from tests.wheels import wheel

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = "quickstart/common/FRAMEWORK/k8s/mlops/base/requirements.sh"
USE = [sys.executable, "-c", "import told; print(told.VALUE)"]


def install(tmp_path: Path, requirements: str, *command: str) -> subprocess.CompletedProcess[str]:
    scripts = tmp_path / "model/quickstart/scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    (scripts / "requirements.txt").write_text(requirements)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "MODEL_DIR": str(tmp_path / "model"),
        "PYTHONPATH": str(tmp_path / "packages"),
        "PIP_INDEX_URL": "",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        "PIP_NO_INDEX": "1",
    }
    argv = ["sh", str(TEMPLATES[""] / "package" / SCRIPT), "requirements.txt", *command]
    return subprocess.run(argv, env=variables, capture_output=True, text=True, check=False, cwd=tmp_path)


def test_packages_are_installed_before_the_next_program(tmp_path: Path) -> None:
    done = install(tmp_path, wheel(tmp_path / "wheels", "first"), *USE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "first\n", "")


def test_container_that_starts_again_installs_nothing(tmp_path: Path) -> None:
    line = wheel(tmp_path / "wheels", "first")
    assert install(tmp_path, line).returncode == 0
    (tmp_path / "wheels/told-1-py3-none-any.whl").unlink()
    assert install(tmp_path, line, *USE).stdout == "first\n"


def test_other_requirements_replace_the_installed_packages(tmp_path: Path) -> None:
    assert install(tmp_path, wheel(tmp_path / "wheels", "first")).returncode == 0
    kept = tmp_path / "packages/own.txt"
    kept.write_text("of the user")
    assert install(tmp_path, wheel(tmp_path / "wheels", "second"), *USE).stdout == "second\n"
    assert kept.read_text() == "of the user"


@pytest.mark.parametrize("folder", ["quickstart/scripts", "assets"])
def test_wheels_of_the_package_are_installed(tmp_path: Path, folder: str) -> None:
    (tmp_path / "model" / folder).mkdir(parents=True)
    assert install(tmp_path, wheel(tmp_path / "model" / folder / "wheels", "carried"), *USE).stdout == "carried\n"


@pytest.mark.parametrize(
    "requirements", [f"told==1 --hash=sha256:{'0' * 64}\n", f"other==1 --hash=sha256:{'0' * 64}\n"]
)
def test_other_file_than_the_listed_one_ends_the_pod(tmp_path: Path, requirements: str) -> None:
    wheel(tmp_path / "wheels", "first")
    done = install(tmp_path, requirements, *USE)
    assert done.returncode != 0
    assert done.stdout == ""
    assert "HASHES" in done.stderr or "No matching distribution" in done.stderr
    assert not (tmp_path / "packages/told.py").exists()

"""Tests of the wheel: its content, and that it builds the same packages as the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

from packager.builder import templating
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
# Build with the pinned hatchling of this environment, not with the newest one in an isolated environment.
BUILD = ("wheel", "--no-deps", "--no-build-isolation")
# Modules are compiled when they are imported; most modules of the dependencies never are.
INSTALL = ("install", "--no-compile")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, *PIP, *BUILD, "--wheel-dir", folder, demo.CHECKOUT], check=True)
    (wheel,) = folder.iterdir()
    return wheel


def test_wheel_contains_only_files_of_package_and_models(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = [
        path.relative_to(demo.CHECKOUT).as_posix()
        for folder in ("packager", "docs", "model_specs")
        for path in (demo.CHECKOUT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    expected = {path if path.startswith("packager/") else f"packager/{path}" for path in files}
    assert len(expected) > 500
    assert expected - names == set()
    assert f"packager/builder/{templating.COMPILED}.py" in names
    assert [name for name in names if "cache" in name or name.endswith(".pyc")] == []
    assert {name.partition("/")[0] for name in names} == {"packager"}


def test_wheel_builds_same_bytes_as_checkout(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    subprocess.run([sys.executable, *PIP, "--python", environment, *INSTALL, wheel], check=True)
    by_wheel = _built([environment / "bin" / "mlpack"], tmp_path / "wheel", tmp_path)
    assert len(by_wheel) == 14
    assert by_wheel == _built([sys.executable, "-m", "packager"], tmp_path / "checkout", demo.CHECKOUT)


def _built(command: list[str | Path], out: Path, cwd: Path) -> dict[str, bytes]:
    subprocess.run([*command, "build", "--all", "-d", out], check=True, stdout=subprocess.DEVNULL, cwd=cwd)
    return {path.name: path.read_bytes() for path in out.iterdir()}

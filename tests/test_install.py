"""Installs mlpack as README.md says: with uv, pipx and pip, from a checkout and from the files of a release.

`test_release.py` runs the file that needs no installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager import __version__
from tests import demo
from tools import release

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = pytest.mark.release

PROGRAMS = Path(sys.executable).parent
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", "bin/python")
INSTALLERS = {
    "uv": ((PROGRAMS / "uv", "tool", "install"), (PROGRAMS / "uv", "tool", "uninstall", release.PROJECT)),
    "pipx": ((PROGRAMS / "pipx", "install"), (PROGRAMS / "pipx", "uninstall", release.PROJECT)),
    "pip": ((*PIP, "install"), (*PIP, "uninstall", "--yes", release.PROJECT)),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The checkout, and the files of a release."""
    folder = tmp_path_factory.mktemp("release") / "files"
    release.release(folder, 1_700_000_000, None)
    (wheel,), (source,) = (folder.glob(f"*.{end}") for end in ("whl", "tar.gz"))
    return {"checkout": demo.CHECKOUT, "wheel": wheel, "source": source}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a person whose home is empty."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIPX", "UV_", "XDG_"))}
    own = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "UV_TOOL_BIN_DIR": str(tmp_path / "bin"),
        "PIPX_BIN_DIR": str(tmp_path / "bin"),
        "UV_PYTHON": sys.executable,
        "PIPX_DEFAULT_PYTHON": sys.executable,
    }
    return {**kept, **own}


def ran(command: tuple[str | Path, ...], folder: Path, variables: Mapping[str, str]) -> str:
    """Run a command, and return what it prints. Raises AssertionError if it fails."""
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("installer", "source", "extra"),
    [
        ("uv", "wheel", "[service]"),
        ("pipx", "source", "[service]"),
        ("pip", "checkout", ""),
    ],
)
def test_installation_builds_a_package_and_is_removed(
    files: dict[str, Path], environment: dict[str, str], tmp_path: Path, installer: str, source: str, extra: str
) -> None:
    install, remove = INSTALLERS[installer]
    if installer == "pip":
        ran((sys.executable, "-m", "venv", "--without-pip", "."), tmp_path, environment)
    ran((*install, f"{files[source]}{extra}"), tmp_path, environment)
    _works(tmp_path, environment, has_service=bool(extra))
    if source == "wheel":
        ran(("mlpack", "build", "--all", "-d", "installed"), tmp_path, environment)
        ran((sys.executable, "-m", "packager", "build", "--all", "-d", tmp_path / "here"), demo.CHECKOUT, environment)
        built = {path.name: path.read_bytes() for path in (tmp_path / "installed").iterdir()}
        assert built == {path.name: path.read_bytes() for path in (tmp_path / "here").iterdir()}
        assert len(built) == 14
    ran(remove, tmp_path, environment)
    assert not (tmp_path / "bin/mlpack").exists()


def _works(folder: Path, variables: Mapping[str, str], *, has_service: bool) -> None:
    assert ran(("mlpack", "--version"), folder, variables) == f"mlpack {__version__}\n"
    assert ran(("mlpack", "build", "hello-mpi"), folder, variables) == "hello-mpi.tar.gz\n"
    assert ran(("mlpack", "serve", "--help"), folder, variables).startswith("Usage: mlpack serve")
    check = ("mlpack", "serve", "check", "--database", "server.db")
    done = subprocess.run(check, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if has_service else 6), done.stderr
    assert has_service or "install mlpack with its extra 'service'" in done.stderr

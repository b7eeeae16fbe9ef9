"""Test the commands without what only Linux has, as on macOS, and without what Windows lacks.

A child process removes modules and functions of the system before it imports mlpack.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

CHILD = """
import os, sys, types
platform, modules, functions = sys.argv[1], sys.argv[2].split(), sys.argv[3].split()
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
for name in modules:
    sys.modules.pop(name, None)
for name in functions:
    if hasattr(os, name):
        delattr(os, name)
sys.modules["_scproxy"] = types.SimpleNamespace(_get_proxy_settings=dict, _get_proxies=dict)  # urllib's, of macOS
sys.argv = ["mlpack", *sys.argv[4:]]
from packager.cli import main  # with typer, which needs more of a real Windows
sys.platform = platform
main()
"""
OF_LINUX = "sched_getaffinity sched_setaffinity O_PATH O_TMPFILE memfd_create copy_file_range pidfd_open getrandom"
OF_POSIX = f"{OF_LINUX} fork forkpty geteuid getuid setsid mkfifo getpgid killpg posix_spawn fchmod fchown chown"
MACOS = ("darwin", "", OF_LINUX)
WINDOWS = ("win32", "fcntl resource pwd grp termios tty", OF_POSIX)


def run(system: tuple[str, str, str], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", CHILD, *system, *arguments]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.thorough
def test_macos_builds_the_same_bytes_and_checks_them(
    mlpack: Callable[..., Outcome], tmp_path: Path, kubectl: Path
) -> None:
    demo.write(tmp_path / "demo")
    assert mlpack("build", tmp_path / "demo", "-d", tmp_path / "here").code == 0
    built = run(MACOS, "build", "./demo", folder=tmp_path)
    assert (built.returncode, built.stdout) == (0, "demo-fp32-training.tar.gz\n"), built.stderr
    archive = "demo-fp32-training.tar.gz"
    assert (tmp_path / archive).read_bytes() == (tmp_path / "here" / archive).read_bytes()
    verified = run(MACOS, "verify", archive, "--kubectl", str(kubectl), folder=tmp_path)
    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    configured = run(MACOS, "configure", archive, "--uid", "1234", "-d", "own.tar.gz", folder=tmp_path)
    assert (configured.returncode, configured.stdout) == (0, "own.tar.gz\n"), configured.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(("arguments", "printed"), [(("show", "hello-mpi"), "Hello MPI"), (("lint", "./demo"), "")])
def test_windows_runs_commands_that_only_read(tmp_path: Path, arguments: tuple[str, ...], printed: str) -> None:
    demo.write(tmp_path / "demo")
    done = run(WINDOWS, *arguments, folder=tmp_path)
    assert (done.returncode, "error" in done.stderr) == (0, False), done.stderr
    assert printed in done.stdout


def test_windows_refuses_to_build_with_one_message(tmp_path: Path) -> None:
    demo.write(tmp_path / "demo")
    done = run(WINDOWS, "build", "./demo", folder=tmp_path)
    assert done.returncode == 6
    assert done.stderr == (
        "error: this command needs a system whose files can be locked, such as Linux or macOS\n"
        "hint: on Windows, run mlpack in WSL\n"
    )

"""Tests of commands that are killed or interrupted, cannot write, have a closed stdout, or run at the same time."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from packager.base.paths import DEFAULT_LIMITS
from packager.package import integrity
from packager.package.opened import Package, opened
from tests.kill import SCENARIOS, Scenario, kill_before_each_step

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.thorough

MLPACK = (sys.executable, "-m", "packager")


def _mlpack(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [*MLPACK, *arguments], stderr=subprocess.PIPE, text=True, check=False, **{"stdout": subprocess.PIPE, **options}
    )


def assert_sealed(package: Package) -> None:
    """Assert that a package has all its sealed files, unchanged."""
    checked = integrity.check(package, DEFAULT_LIMITS)
    assert (checked.problems, checked.edits, checked.unread) == ([], [], [])


@pytest.fixture(scope="module")
def small_process() -> Iterator[ProcessPoolExecutor]:
    """A process that forks in half the time that this one takes, which has all tests in memory."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_output_is_old_or_new_after_kill_before_any_step(
    scenario: Scenario, small_process: ProcessPoolExecutor, tmp_path: Path
) -> None:
    wrong, killed, left = small_process.submit(kill_before_each_step, scenario, tmp_path / "trial").result()
    assert wrong == [None] * len(wrong)
    assert len(wrong) == killed + 1 > 8
    assert left > 2


def _copies(specs: Path, count: int) -> None:
    """Write `count` copies of hello-mpi, each with another name."""
    for index in range(count):
        shutil.copytree("model_specs/hello-mpi", specs / f"m{index}", symlinks=True)
        spec = specs / f"m{index}/spec.yaml"
        spec.write_text(spec.read_text().replace("name: hello-mpi", f"name: hello-{index}", 1))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_build_prints_one_line_and_leaves_complete_packages(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    specs, out = tmp_path / "specs", tmp_path / "out"
    _copies(specs, 60)
    argv = [*MLPACK, "build", "--all", "--specs", str(specs), "-d", str(out)]
    build = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(list(out.glob("*.tar.gz"))) < 2:
        assert build.poll() is None
        time.sleep(0.01)
    build.send_signal(number)
    _, stderr = build.communicate()
    assert (build.returncode, stderr) == (code, f"mlpack: stopped by {number.name}\n")
    assert 2 <= len(list(out.iterdir())) < 60
    for path in out.iterdir():
        assert not path.name.startswith(".")
        with opened(path) as package:
            assert_sealed(package)


CLEANING = """\
import signal, sys, time
from packager import cli

def run(arguments, host):
    try:
        signal.raise_signal(int(sys.argv[1]))
    finally:
        signal.raise_signal(int(sys.argv[2]))
        time.sleep(0.01)
        print("cleaned up")

cli._run = run
cli.main([])
"""


@pytest.mark.parametrize(("first", "second"), [(signal.SIGINT, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT)])
def test_second_signal_does_not_interrupt_cleanup(first: signal.Signals, second: signal.Signals) -> None:
    argv = [sys.executable, "-c", CLEANING, str(int(first)), str(int(second))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("cleaned up\n", f"mlpack: stopped by {first.name}\n")
    assert done.returncode == 128 + first


def _inside_mount(mount: str, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `script` with a private file system mounted at `folder`."""
    folder.mkdir()
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*unshare, "mount -t tmpfs none /mnt"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces on this machine, and so no file system of our own")
    whole = f"mount -t tmpfs {mount} none '{folder}' && {{ {script}; }}"
    return subprocess.run([*unshare, whole], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("form", ["tar.gz", "dir"])
def test_build_on_full_disk_reports_it_and_leaves_nothing(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    command = f"{sys.executable} -m packager build hello-mpi -d '{folder}' --format {form}"
    done = _inside_mount("-o size=8k", f"{command}; code=$?; ls -A '{folder}'; exit $code", folder)
    name = "hello-mpi" if form == "dir" else "hello-mpi.tar.gz"
    assert done.stdout == "", "something was left"
    assert done.returncode == 6
    assert done.stderr.startswith(f"error: {folder}/{name} cannot be written: no space left on device")
    assert done.stderr.count("\n") == 1


def test_build_on_full_disk_keeps_old_package(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    build = f"{sys.executable} -m packager build hello-mpi -d '{folder}'"
    script = (
        f"{build} >/dev/null && cd '{folder}' && sha256sum *.gz >../before && head -c 1M /dev/zero >fill;"
        f" {build} --force; code=$?; rm fill; sha256sum -c ../before && ls -A; exit $code"
    )
    done = _inside_mount("-o size=64k", script, folder)
    assert done.returncode == 6
    assert done.stdout == "hello-mpi.tar.gz: OK\nhello-mpi.tar.gz\n"
    assert "cannot be written: no space left on device" in done.stderr


def test_build_reports_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    # Without these two capabilities, root must respect the mode, too.
    humble = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []
    command = [*humble, *MLPACK, "build", "hello-mpi", "-d", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    tmp_path.chmod(0o755)
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr == f"error: {tmp_path}/hello-mpi.tar.gz cannot be written: permission denied\n"


def test_command_with_closed_stdout_exits_quietly() -> None:
    """This happens in `mlpack schema | head -1` after head has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    done = _mlpack("schema", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


def test_list_reports_full_disk_for_stdout() -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = _mlpack("list", stdout=full)
    assert done.returncode == 6
    assert done.stderr == "error: stdout cannot be written: no space left on device\n"


@pytest.mark.parametrize("form", ["tar.gz", "dir"])
def test_concurrent_builds_create_one_package(form: str, tmp_path: Path) -> None:
    argv = [*MLPACK, "build", "hello-mpi", "--format", form, "--registry"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    builds = [
        subprocess.Popen([*argv, f"r{number}.example"], cwd=tmp_path, text=True, **pipes)  # type: ignore[call-overload]
        for number in range(3)
    ]
    printed = [build.communicate()[1].splitlines()[-1] for build in builds]
    assert sorted(build.returncode for build in builds) == [0, 2, 2]
    assert printed.count("hint: --force replaces it") == 2
    (path,) = tmp_path.iterdir()
    with opened(path) as package:
        assert_sealed(package)

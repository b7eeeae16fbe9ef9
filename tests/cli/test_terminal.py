"""Tests of mlpack as a process: terminals, locales, shells, closed streams, and the modules that it imports."""

import os
import pty
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from packager.cli.console import progress
from tests import demo
from tests.conftest import Mlpack
from tests.life import at_a_terminal

MLPACK = (sys.executable, "-m", "packager")


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*MLPACK, *arguments],
        env={**os.environ, "PYTHONPATH": str(demo.CHECKOUT), **environment},
        capture_output=True,
        check=False,
    )


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """Run the command with a terminal for stderr, and return what the terminal shows."""
    controller, terminal = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [*MLPACK, *arguments],
        env={**clean, "PYTHONPATH": str(demo.CHECKOUT), "TERM": "xterm", **environment},
        stdout=subprocess.DEVNULL,
        stderr=terminal,
        check=False,
    )
    os.close(terminal)
    shown = os.read(controller, 65536).decode()
    os.close(controller)
    return shown


def test_error_is_red_on_terminal() -> None:
    assert on_a_terminal("build").startswith("\x1b[1;31merror:\x1b[0m no model given")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_error_has_no_colour_with_no_color_variable_or_dumb_terminal(environment: dict[str, str]) -> None:
    assert on_a_terminal("build", **environment).startswith("error: no model given")


def test_error_has_no_colour_without_terminal() -> None:
    assert run("build", FORCE_COLOR="1").stderr == (
        b"error: no model given\nhint: `mlpack list` shows the models; --all builds all of them\n"
    )


def test_output_is_utf8_in_every_locale(tmp_path: Path) -> None:
    spec = demo.write(tmp_path, demo.changed("title: Demo => title: Démo 漢"))
    posix = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = run("show", spec, **posix)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith("demo: Démo 漢\n".encode())


def test_build_refuses_setting_with_invalid_utf8(tmp_path: Path) -> None:
    done = run("build", demo.write(tmp_path), "--set", "environment.A=\udcff")
    assert done.returncode == 2
    assert done.stderr.endswith(b": expected UTF-8 text\n")


def schema_into(stdout: IO[bytes]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*MLPACK, "schema"], stdout=stdout, stderr=subprocess.PIPE, check=False, cwd=demo.CHECKOUT)


def test_mlpack_exits_with_141_when_stdout_pipe_is_closed() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = schema_into(closed)
    assert (done.returncode, done.stderr) == (141, b"")


def test_mlpack_reports_full_disk_for_stdout() -> None:
    with Path("/dev/full").open("wb") as full:  # Linux's device that is always full
        done = schema_into(full)
    assert done.returncode == 6
    assert done.stderr == b"error: stdout cannot be written: no space left on device\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "streams"),
    [
        ("--version", "<&-"),
        ("--help", ">&-"),
        ("build", "2>&-"),
        ("", "<&- >&-"),
        ("nope", "<&- >&- 2>&-"),
        ("list -o json", ">/dev/full 2>/dev/full"),
    ],
)
def test_mlpack_prints_no_traceback_for_closed_or_full_streams(arguments: str, streams: str) -> None:
    command = f"exec {shlex.join(MLPACK)} {arguments} {streams}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, cwd=demo.CHECKOUT)
    assert done.returncode in (0, 2, 6)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.thorough
def test_build_reports_closed_stdout(tmp_path: Path) -> None:
    """No file that the build opens gets the file descriptor of the closed stdout."""
    out = shlex.join(["-d", str(tmp_path)])
    command = f"exec {shlex.join(MLPACK)} build hello-mpi --format dir {out} >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, cwd=demo.CHECKOUT)
    assert (done.returncode, done.stderr) == (6, b"error: stdout is closed: the result cannot be written\n")
    assert run("verify", tmp_path / "hello-mpi", "--kubectl", "absent").returncode == 6


def modules_loaded_by(*arguments: str) -> set[str]:
    """Return the names of the modules that a command has imported at its end."""
    code = (
        "import sys, packager.cli\n"
        f"sys.argv = {['mlpack', *arguments]!r}\n"
        "try:\n    packager.cli.main()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=demo.CHECKOUT)
    return set(done.stderr.split())


def test_help_loads_neither_stages_nor_large_libraries() -> None:
    loaded = modules_loaded_by("--help")
    libraries = {"jinja2", "jsonschema", "msgspec", "yaml", "ruamel.yaml", "rich", "pydantic", "tarfile"}
    libraries |= {"litestar", "sqlalchemy", "lightkube", "prometheus_client"}
    stages = {f"packager.{name}" for name in ("builder.render", "modelspec.model", "service", "verify")}
    assert loaded & (libraries | stages) == set()


@pytest.mark.thorough
def test_build_and_verify_load_no_unused_modules(tmp_path: Path) -> None:
    loaded = modules_loaded_by("build", "hello-mpi", "-d", str(tmp_path))
    assert "packager.builder.render" in loaded
    assert loaded & {"jsonschema", "packager.base.process", "rich"} == set()
    loaded = modules_loaded_by("verify", str(tmp_path / "hello-mpi.tar.gz"), "--kubectl", "absent")
    assert "packager.verify" in loaded
    assert loaded & {"jsonschema", "packager.verify.server", "packager.workloads.overlay"} == set()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_script_that_shell_accepts(shell: str, mlpack: Mlpack) -> None:
    script = mlpack("completion", shell).stdout
    assert "_MLPACK_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script.encode(), check=True)


def test_progress_bar_is_drawn_only_on_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with progress("building", 2, unit="models") as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")
    at_a_terminal(monkeypatch)
    with progress("building", 2, unit="models") as advance:
        advance(2)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "building" in shown.err
    assert "2/2" in shown.err

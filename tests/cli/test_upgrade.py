"""Tests of `mlpack upgrade`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from packager.package import journal
from tests import demo
from tests.app.test_upgrade import ENV, POD, clash, edit, files, newer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Mlpack

__all__ = ["clash"]


@pytest.fixture
def new(package: Path, tmp_path: Path) -> Path:
    """A newer build, without conflicts with edits."""
    return newer(package, tmp_path / "new", {"README.md": b"new"})


def test_upgrade_prints_changed_files_and_results(mlpack: Mlpack, package: Path, new: Path, kubectl: Path) -> None:
    edit(package / ENV, "=docker.io", "=example.com")
    done = mlpack("upgrade", package, new, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, f"{package}/README.md\n{package}/manifest.json\n")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("hello-mpi: ")
    assert lines[1:] == ["updated  README.md", f"kept     {ENV}"]
    done = mlpack("upgrade", package, new)
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr == f"hello-mpi: nothing to do, {new} is the same build\n"


def test_upgrade_lists_files_apart_that_are_not_meant_to_be_edited(
    mlpack: Mlpack, package: Path, tmp_path: Path
) -> None:
    before = (package / POD).read_bytes()
    new = newer(package, tmp_path / "new", {POD: b"# new\n" + before, "Dockerfile": b"new"})
    (package / "README.md").write_bytes(b"mine")
    (package / "notes.txt").write_bytes(b"mine")
    (package / POD).write_bytes(before + b"# mine\n")
    done = mlpack("upgrade", package, new, "--dry-run", "--no-verify")
    assert done.stderr.splitlines()[1:] == [
        "updated  Dockerfile",
        f"merged   {POD}",
        "kept     README.md (not meant to be edited)",
        "kept     notes.txt (not meant to be edited)",
    ]
    done = mlpack("upgrade", package, new, "--dry-run", "--no-verify", "-o", "json")
    assert done.json["unexpected"] == ["README.md", "notes.txt"]


def test_dry_run_of_upgrade_changes_nothing(mlpack: Mlpack, package: Path, new: Path) -> None:
    before = files(package)
    done = mlpack("upgrade", package, new, "--dry-run", "--no-verify", "-o", "json")
    assert (done.code, done.stderr) == (0, "")
    assert done.json["files"] == [{"file": "README.md", "action": "updated", "moved_from": None}]
    assert files(package) == before


def test_conflicts_end_with_9_and_change_nothing(mlpack: Mlpack, package: Path, clash: Path) -> None:
    before = files(package)
    done = mlpack("upgrade", package, clash)
    assert (done.code, done.stdout) == (9, "")
    assert done.stderr.endswith(
        f"error: 2 conflicts: {package} was left as it is\n"
        "hint: --yours FILE keeps your version, --theirs FILE takes the new one, --mark writes both into the file\n"
    )
    assert mlpack("upgrade", package, clash, "-o", "json").code == 9
    assert files(package) == before


def test_marked_package_is_refused_until_decided(mlpack: Mlpack, package: Path, clash: Path, kubectl: Path) -> None:
    assert mlpack("upgrade", package, clash, "--mark").code == 9
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    assert f"{package}/{ENV}:" in done.stdout
    assert done.stdout.count("a conflict of an upgrade is undecided here") == 2
    assert mlpack("configure", package, "--registry", "a").code == 5
    assert mlpack("deploy", package, "--dry-run=client", "--kubectl", kubectl).code == 5
    push = ("push", package, "oci://localhost:1/x:1", "--dry-run", "--kubectl", kubectl)
    bundle = ("bundle", package, "-d", "trial.tar", "--kubectl", kubectl)
    for command in (push, (*push, "--no-verify"), bundle):
        done = mlpack(*command)
        assert (done.code, "a conflict of an upgrade is undecided here" in done.stderr) == (5, True), done.stderr
    assert mlpack("upgrade", package, clash).code == 5
    env = [line for line in (package / ENV).read_bytes().split(b"\n") if not line.startswith(b"# mlpack-conflict:")]
    (package / ENV).write_bytes(b"\n".join(env))
    (package / POD).write_bytes((clash / POD).read_bytes())
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0


def test_upgrade_without_kubectl_changes_nothing(mlpack: Mlpack, package: Path, new: Path) -> None:
    before = files(package)
    done = mlpack("upgrade", package, new, "--kubectl", "/absent/kubectl")
    assert done.code == 6
    assert done.stderr.endswith("hint: --no-verify upgrades it nevertheless\n")
    assert files(package) == before


def test_interrupted_upgrade_is_reported_and_aborted(
    mlpack: Mlpack, package: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(package)
    with monkeypatch.context() as patched:
        patched.setattr(journal, "complete", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        assert mlpack("upgrade", package, new, "--no-verify").code == 130
    for command in ("verify", "configure", "diff"):
        done = mlpack(command, package)
        assert done.code == 5
        assert done.stderr == (
            f"error: an upgrade of {package} was interrupted, and its files are of two versions\n"
            f"hint: `mlpack upgrade --continue {package}` completes it, and --abort undoes it\n"
        )
    assert mlpack("upgrade", "--abort", package).code == 0
    assert files(package) == before
    assert mlpack("upgrade", "--continue", package).code == 2


def test_upgrade_needs_newer_package(mlpack: Mlpack, package: Path, new: Path) -> None:
    assert mlpack("upgrade", package).code == 2
    assert mlpack("upgrade", "--continue", package, new).code == 2


def _lines(controller: int) -> Iterator[str]:
    """Yield all that a terminal has shown; its other end is closed."""
    with suppress(OSError):  # Linux ends the output of a closed terminal by an error
        while data := os.read(controller, 65536):
            yield data.decode()


@pytest.mark.thorough
@pytest.mark.parametrize(("answers", "code"), [("y\ntheirs\n", 0), ("?\nt\nq\n", 1), ("edit\ne\nt\n", 0)])
def test_upgrade_asks_on_terminal(answers: str, code: int, package: Path, clash: Path, tmp_path: Path) -> None:
    before = files(package)
    editor = tmp_path / "editor"
    editor.write_text(f"""#!/bin/sh
if [ -e {tmp_path}/saved ]; then echo REGISTRY=own.example.com >"$1"; else echo '=======' >>"$1"; fi
>{tmp_path}/saved
""")
    editor.chmod(0o755)
    controller, terminal = pty.openpty()
    os.write(controller, answers.encode())
    done = subprocess.run(
        [sys.executable, "-m", "packager", "upgrade", package, clash, "--no-verify"],
        env={**os.environ, "PYTHONPATH": str(demo.CHECKOUT), "VISUAL": "", "EDITOR": str(editor)},
        stdin=terminal,
        stderr=terminal,
        stdout=subprocess.PIPE,
        check=False,
    )
    os.close(terminal)
    shown = "".join(_lines(controller))
    os.close(controller)
    assert done.returncode == code
    assert "the package had REGISTRY=docker.io, you have REGISTRY=example.com" in shown
    assert "Keep yours, take theirs, edit, or quit? [quit]: " in shown
    assert ("the text still has a mark" in shown) is answers.startswith("e")
    if code:
        assert files(package) == before
    else:
        registry = b"own.example.com" if answers.startswith("e") else b"example.com"
        assert b"REGISTRY=%b\n" % registry in (package / ENV).read_bytes()
        assert (package / POD).read_bytes() == (clash / POD).read_bytes()

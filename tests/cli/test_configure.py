"""Tests of `mlpack configure`: its questions on a terminal, and the values that it refuses without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.life import at_a_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack

ENV = "quickstart/k8s/mlops/multi-node/mlops.env"
NO_ROOT = "--root relative: expected an absolute path without ':' and '..'"
NO_HOST = "--registry a b: expected a host, optionally with a port and a path"


def test_configure_asks_again_after_invalid_answer(
    mlpack: Mlpack, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_a_terminal(monkeypatch, typed="relative\n\n/shared\na b\n/shared\nr.example\nme\n5\n6\n7\n")
    done = mlpack("configure", package)
    assert done.code == 0
    assert done.stderr.startswith("hello-mpi. Press Enter to accept the value in brackets.\n")
    assert done.stderr.count("Folder that contains the package, as the nodes see it [") == 3
    assert f"{NO_ROOT}\n" in done.stderr
    assert f"{NO_HOST}\n" in done.stderr
    assert done.stderr.count("expected a number, as `id -u` prints it\n") == 1
    assert "MODEL_DIR=/shared/hello-mpi\n" in (package / ENV).read_text(encoding="utf-8")
    assert "REGISTRY=r.example\n" in (package / ENV).read_text(encoding="utf-8")


def test_configure_without_terminal_names_options(mlpack: Mlpack, package: Path) -> None:
    before = (package / ENV).read_bytes()
    done = mlpack("configure", package)
    assert done.code == 9
    assert done.stderr == (
        "error: nothing was changed: there is no terminal to ask on\n"
        "hint: set the values with --root, --registry, --uid and --gid; -y accepts the proposed ones\n"
    )
    assert (package / ENV).read_bytes() == before


def test_configure_yes_refuses_invalid_current_value(mlpack: Mlpack, package: Path) -> None:
    path = package / ENV
    path.write_text(path.read_text(encoding="utf-8").replace("REGISTRY=docker.io", "REGISTRY=a b"), encoding="utf-8")
    done = mlpack("configure", package, "-y")
    expected = "expected a host, optionally with a port and a path, found 'a b'"
    assert done.code == 5
    assert done.stderr.splitlines() == [
        f"{path}:5:10: REGISTRY: {expected}",
        f"error: {package} contains invalid values; nothing was changed",
    ]
    assert "REGISTRY=a b\n" in path.read_text(encoding="utf-8")


def test_configure_does_not_replace_folder_by_archive(mlpack: Mlpack, tmp_path: Path) -> None:
    assert mlpack("build", "hello-mpi").code == 0
    (tmp_path / "there").mkdir()
    done = mlpack("configure", "hello-mpi.tar.gz", "--root", "/x", "-d", "there")
    assert (done.code, done.stderr.splitlines()[-1]) == (2, "error: there is a folder")
    assert list((tmp_path / "there").iterdir()) == []


PATCH = "quickstart/k8s/mlops/multi-node/mlops-job-patch.yaml"


def spoil(package: Path, user: str) -> Path:
    """Replace the first runAsUser of the patch by `user`, and return the path of the patch."""
    path = package / PATCH
    path.write_text(path.read_text(encoding="utf-8").replace("runAsUser: 1000", f"runAsUser: {user}"), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("user", "shown"),
    [
        ("abc", "'abc'"),
        ("9" * 5000, None),
        ("", "nothing"),
    ],
)
def test_configure_reports_invalid_user_id_with_its_position(
    mlpack: Mlpack, package: Path, user: str, shown: str | None
) -> None:
    path = spoil(package, user)
    for arguments in (("-y",), ("--root", "/x"), ("--check",)):
        done = mlpack("configure", package, *arguments)
        assert done.code == (1 if arguments == ("--check",) else 5)
        if shown:
            message = f"runAsUser: expected a whole number from 0 to 2147483647, found {shown} (--uid N sets it)"
            assert message in done.stdout + done.stderr
            assert f"{path}:" in done.stdout + done.stderr
        assert len(done.stderr) < 20_000


@pytest.mark.parametrize(
    ("typed", "code", "error"),
    [
        ("/x\nr.example\n", 1, "error: nothing was done: the input ended before an answer"),
        ("/x\nr.example\n" + "abc\n" * 99, 2, "error: no valid answer in 5 attempts; nothing was changed"),
    ],
    ids=["an end", "no number"],
)
def test_configure_stops_at_end_of_input_or_after_five_invalid_answers(
    mlpack: Mlpack, package: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int, error: str
) -> None:
    at_a_terminal(monkeypatch, typed=typed)
    before = (package / PATCH).read_bytes()
    done = mlpack("configure", package)
    assert (done.code, done.stderr.splitlines()[-1]) == (code, error)
    assert (package / PATCH).read_bytes() == before

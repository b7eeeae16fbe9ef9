"""Paths that a user names: impossible ones are reported as missing, without a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base import paths
from packager.base.errors import ToolError
from packager.modelspec import catalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

LONG = "x" * 300


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


def test_paths_are_distinguished_by_type(here: Path) -> None:
    for name, exists, file, folder in (
        ("file", True, True, False),
        ("folder", True, False, True),
        ("link", True, False, True),
        ("/dev/null", True, False, False),
        ("file/below", False, False, False),
        (LONG, False, False, False),
    ):
        path = here / name
        assert (paths.exists(path), paths.is_file(path), paths.is_folder(path)) == (exists, file, folder)


def test_path_that_cannot_be_looked_up_is_an_error(here: Path) -> None:
    with pytest.raises(ToolError) as refused:
        paths.exists(here / "loop")
    assert str(refused.value) == f"{here}/loop cannot be read: too many levels of symbolic links"
    assert refused.value.exit_code == 6


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("verify", LONG), 2, f"there is no {LONG}"),
        (("build", LONG), 2, f"model '{LONG}' not found"),
        (("build", f"./{LONG}"), 3, f"{LONG}: file name too long"),
        (("build", "hello-mpi", "--with", f"./{LONG}"), 2, f"--with ./{LONG}: folder not found"),
        (
            ("build", "hello-mpi", "-d", LONG),
            6,
            f"{LONG}/hello-mpi.tar.gz cannot be written: file name too long ({LONG})",
        ),
        (("verify", "loop"), 6, "loop cannot be read: too many levels of symbolic links"),
    ],
    ids=lambda value: str(value).replace(LONG, "LONG"),
)
@pytest.mark.usefixtures("here")
def test_impossible_paths_on_the_command_line_are_reported(
    mlpack: Callable[..., Outcome], arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = mlpack(*arguments)
    assert (done.code, done.stdout) == (code, "")
    assert done.stderr.splitlines()[0] == f"error: {message}"


def test_unreadable_folder_does_not_hide_other_models(specs: Path) -> None:
    (specs / "a").symlink_to("a")
    assert [path.parent.name for path in catalog.specs([specs])] == ["demo", "wrong"]
    assert catalog.find("demo", [specs]) == specs / "demo" / "spec.yaml"

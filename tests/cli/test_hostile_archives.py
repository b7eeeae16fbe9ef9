"""Tests that every command that reads a package refuses hostile archives in the same way."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import pytest

from packager.cli import verbs
from tests.cli.test_opening import VERBS
from tests.test_hostile import ARCHIVES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

NAMES = ("PACKAGE", "TARGET")
"""The names of an argument or an option that is a package."""

COMMANDS = {
    **VERBS,
    "bundle": ["bundle", "hello-mpi"],
    "inspect": ["inspect", "hello-mpi"],
    "lock": ["lock", "hello-mpi"],
    "task export": ["task", "export", "hello-mpi"],
    "push": ["push", "hello-mpi", "oci://localhost:1/hello-mpi:1"],
}


def test_table_has_every_command_that_reads_a_package() -> None:
    commands = [leaf for verb in verbs.VERBS for leaf in verbs.leaves(verb, verbs.load(verb))]
    readers = {name for name, command in commands if any(param.metavar in NAMES for param in command.params)}
    assert len(readers) > 15
    names = (takewhile(lambda word: word != "hello-mpi" and word[0] != "-", words) for words in COMMANDS.values())
    in_table = {" ".join(name) for name in names}
    assert readers == in_table


@pytest.fixture
def refused(
    life: Life, mlpack: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """A function that runs a command for one of the archives, which must refuse it and write nothing."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    (tmp_path / "site.yaml").write_text("registry: r.example\n", encoding="utf-8")
    archive = tmp_path / "p.tar.gz"
    archive.touch()
    before = sorted(tmp_path.iterdir())

    def refuse(command: str, name: str) -> None:
        content, reason = ARCHIVES[name]
        archive.write_bytes(content)
        done = mlpack(*("p.tar.gz" if word == "hello-mpi" else word for word in COMMANDS[command]))
        assert (done.code, done.stdout) == (5, ""), (command, name)
        assert done.stderr.count("\n") == 1 or "hint" in done.stderr, (command, name)
        assert done.stderr.startswith("error: p.tar.gz"), (command, name)
        assert reason in done.stderr, (command, name)
        assert life.calls == []
        assert sorted(tmp_path.iterdir()) == before
        assert not any(path.is_file() for path in temporary.rglob("*"))

    return refuse


def test_verify_refuses_each_hostile_archive(refused: Callable[[str, str], None]) -> None:
    for name in ARCHIVES:
        refused("verify", name)


def test_each_command_refuses_a_hostile_archive(refused: Callable[[str, str], None]) -> None:
    for command in COMMANDS:
        refused(command, next(iter(ARCHIVES)))

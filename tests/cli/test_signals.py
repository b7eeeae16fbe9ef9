"""Signals at each call of kubectl: every command ends at once, says so in one line, and leaves no temporary file."""

from __future__ import annotations

import signal
from itertools import count
from typing import TYPE_CHECKING

import pytest

from packager.cli.host import Host
from tests.cli.test_opening import VERBS
from tests.life import Life

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.conftest import Mlpack

MOST_CALLS = 12
"""The most calls of kubectl at which a command gets a signal."""

OTHERS = ("configure", "diff", "history", "image", "verify")
COMMANDS = {name: words for name, words in VERBS.items() if words[0] not in OTHERS}
"""The commands that call kubectl for this package."""


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Signalled(Life):
    """A cluster during one of whose requests the command gets a signal."""

    def at(self, number: int, call: int) -> Signalled:
        numbers = count()

        def first(_argv: Sequence[str]) -> None:
            if next(numbers) == call:
                self.is_sent = True
                signal.raise_signal(number)

        self.is_sent = False
        self.first = first
        return self


@pytest.mark.parametrize("command", COMMANDS)
def test_command_ends_at_a_signal_during_any_call_of_kubectl(
    command: str, life: Life, mlpack: Mlpack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    package = _files(tmp_path / "hello-mpi")
    sent = 0
    for call in range(MOST_CALLS):
        number = (signal.SIGINT, signal.SIGTERM)[call % 2]
        cluster = Signalled().at(number, call)
        mlpack.host = Host(cluster)
        done = mlpack(*VERBS[command])
        if not cluster.is_sent:
            break
        sent += 1
        assert done.code == 128 + number, (call, done)
        assert done.stderr.splitlines()[-1] == f"mlpack: stopped by {number.name}"
        assert "Traceback" not in done.stderr
        assert _files(temporary) == {}
        assert _files(tmp_path / "hello-mpi") == package
    assert sent > 0
    assert life.calls == []

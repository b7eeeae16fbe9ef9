from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Mlpack


@pytest.mark.parametrize("command", [("build",), ("operator", "install")])
def test_help_prints_the_same_as_the_option_of_a_command(mlpack: Mlpack, command: tuple[str, ...]) -> None:
    done = mlpack("help", *command)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == mlpack(*command, "--help").stdout


@pytest.mark.parametrize("command", ["operator absent", "\x1b[2J"])
def test_help_refuses_an_unknown_command(mlpack: Mlpack, command: str) -> None:
    done = mlpack("help", *command.split(" "))
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown command '")
    assert "\x1b" not in done.stderr
    assert done.stderr.endswith("hint: mlpack help lists all commands\n")

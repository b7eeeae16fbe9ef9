"""The examples of all commands: each command has some, and each is a command line that the command accepts."""

from __future__ import annotations

import re
import shlex
from typing import Any

import typer

from packager.cli import verbs
from packager.cli.examples import TEXT, as_text, examples

COMMANDS = {name: command for verb in verbs.VERBS for name, command in verbs.leaves(verb, verbs.load(verb))}


NAMES = {line.partition(": ")[0] for line in TEXT.splitlines() if line}


def test_every_command_has_an_example() -> None:
    assert set(COMMANDS) <= NAMES
    assert NAMES - set(COMMANDS) == {"serve"}


def test_example_is_accepted_by_its_command() -> None:
    for name, line in [(command, line) for command in NAMES for line, _ in examples(command)]:
        words = shlex.split(re.sub(r"^source <\((.*)\)$", r"\1", line).partition(" | ")[0].partition(" > ")[0])
        command: Any = COMMANDS[name] if name in COMMANDS else verbs.load(name)
        path = name.split(" ")
        assert words[: len(path) + 1] == ["mlpack", *path]
        with command.make_context(name, words[len(path) + 1 :], parent=typer.Context(command, info_name="mlpack")):
            pass


def test_help_shows_the_examples_of_a_command() -> None:
    assert "  mlpack verify -v hello-mpi.tar.gz\n      all checks" in as_text("verify")
    assert as_text("absent") == ""

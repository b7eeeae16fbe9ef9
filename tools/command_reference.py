"""Writes the reference of the command line, in Markdown, from the commands themselves: `make docs`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from packager.cli.verbs import VERBS, examples, leaves, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typer.core import TyperCommand

_INTRODUCTION = """\
# Commands

<!-- Made by `make docs` from the modules in packager/cli: edit those. -->

`mlpack COMMAND --help` shows the same.
Each command also takes `-q`, `--quiet` (print nothing on stderr but errors) and `--help`. Where an option is
repeatable, give it once for each value: `--with nfs --with gpu`. A duration is written as `90s`, `5m`, `1h30m` or `7d`.
"""

_HIDDEN = ("-q, --quiet", "-h, --help", "--help")


def reference() -> str:
    """Return the whole document."""
    return "\n".join([_INTRODUCTION, *(_section(name, command) for name, command in _commands())])


def _commands() -> Iterator[tuple[str, TyperCommand]]:
    for verb in VERBS:
        command = load(verb)
        if command.params and getattr(command, "invoke_without_command", False):
            yield verb, command
        yield from leaves(verb, command)


def _section(name: str, command: TyperCommand) -> str:
    context = typer.Context(command, info_name=f"mlpack {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"## {name}", "", f"`mlpack {name} {usage}`", "", command.help or "", ""]
    records = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    rows = [record for record in records if not record[0].startswith(_HIDDEN)]
    lines_of_shell = [f"{line}  # {purpose}" for line, purpose in examples(name)]
    shown = ["", "```sh", *lines_of_shell, "```"] if lines_of_shell else []
    return "\n".join([*lines, *_table(rows), *shown]) + ("\n" if rows or shown else "")


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    if not rows:
        return []
    cells = [(f"`{name}`", " ".join(purpose.split())) for name, purpose in rows]
    escaped = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in cells]
    return ["| argument or option | what it does |", "|---|---|", *(f"| {row} |" for row in escaped)]


if __name__ == "__main__":
    sys.stdout.write(reference())

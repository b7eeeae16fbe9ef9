"""`mlpack man`: writes manual pages, from the same help as --help and docs/commands.md."""

from __future__ import annotations

import re
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager import __version__
from packager.base import atomic
from packager.base.errors import ToolError, UsageError, reason
from packager.cli import completing
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.console import OutputFormat, emit_data, emit_output
from packager.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def man(
    ctx: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND...", help="The command; by default mlpack.", autocompletion=completing.commands
        ),
    ] = [],  # noqa: B006 - typer copies it
    destination: Annotated[
        Path | None, typer.Option("-d", "--destination", metavar="DIR", help="Write the pages of all commands to DIR.")
    ] = None,
    output: Output = None,
) -> None:
    """Print the manual page of a command, or write those of all commands to files: mlpack.1, mlpack-build.1, ..."""
    top: Any = (ctx.parent or ctx).command
    written = {name: page(name, one) for name, one in _documented(top)}
    if destination is None:
        name = " ".join(["mlpack", *command])
        if name not in written:
            raise UsageError(f"unknown command '{' '.join(command)}'", hint="mlpack help lists all commands")
        emit_data(written[name])
        return
    try:
        destination.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{destination}: {reason(error)}") from None
    paths = [destination / f"{name.replace(' ', '-')}.1" for name in written]
    for path, text in zip(paths, written.values(), strict=True):
        with atomic.file(path) as stream:
            stream.write(text.encode())
    emit_output({"files": [str(path) for path in paths]}, map(str, paths), output or OutputFormat.name)


def _documented(top: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name, groups before their commands."""
    from packager.cli.verbs import VERBS, load

    def below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield name, command
        for step, subcommand in getattr(command, "commands", {}).items():
            yield from below(f"{name} {step}", subcommand)

    yield "mlpack", top
    for verb in VERBS:
        yield from below(f"mlpack {verb}", load(verb))


def page(name: str, command: Any) -> str:
    """Return the manual page of a command in the format of man(7).

    Args:
        name: The full name, such as `mlpack operator install`.
        command: The command, as typer describes it.
    """
    context = typer.Context(command, info_name=name)
    summary, _, rest = (command.help or "").partition("\n\n")
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [
        f'.TH "{name.replace(" ", "-").upper()}" 1 "" "mlpack {__version__}" "mlpack"',
        *_section("NAME", [f"{name.replace(' ', '-')} \\- {_escaped(summary)}"]),
        *_section("SYNOPSIS", [f".B {name}", _escaped(usage)]),
    ]
    if rest:
        lines += _section("DESCRIPTION", [line or ".PP" for line in _escaped(rest).split("\n")])
    if subcommands := getattr(command, "commands", {}):
        rows = [(step, (one.help or "").partition("\n")[0]) for step, one in subcommands.items()]
        lines += _section("COMMANDS", _entries(rows))
    if rows := [record for parameter in command.params if (record := parameter.get_help_record(context))]:
        lines += _section("OPTIONS", _entries(rows))
    if examples := EXAMPLES.get(name.removeprefix("mlpack ")):
        lines += _section("EXAMPLES", _entries([(line, purpose) for line, purpose in examples]))
    if name == "mlpack":
        lines += _section("SEE ALSO", ["The pages of the commands: \\fBman mlpack\\-build\\fP."])
    return "\n".join(lines) + "\n"


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [f".SH {title}", *lines]


def _entries(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [line for name, text in rows for line in (".TP", f".B {_escaped(name)}", _escaped(" ".join(text.split())))]


def _escaped(text: str) -> str:
    """Return text for roff: no backslash, dash, quote or leading dot of it is a request or another character."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)

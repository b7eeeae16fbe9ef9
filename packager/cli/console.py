"""What the verbs print with: machine output alone on stdout, everything for people on stderr."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from packager.errors import ToolError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.errors import MlpackError


class Output(StrEnum):
    """What `-o` takes where there is more than one thing to say of each item."""

    json = "json"
    name = "name"


class Machine(StrEnum):
    """What `-o` takes where machines have one choice."""

    json = "json"


def speak_utf8() -> None:
    """Let stdout and stderr take any text, and any file name, whatever the locale says."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def emit(text: str) -> None:
    """Write `text` and a newline to stdout, at once.

    Raises:
        typer.Exit: Nobody reads stdout any more (`| head`): with 141, as of a program that SIGPIPE ended.
        ToolError: It cannot take what is written (a full disk).
    """
    try:
        sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
        sys.stdout.flush()
    except OSError as error:
        # What is left in the buffer would fail once more when the interpreter flushes it on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(128 + signal.SIGPIPE) from None
        raise ToolError(f"stdout cannot be written: {reason(error)}") from None


def emit_json(value: Any) -> None:
    """Write `value` to stdout as JSON."""
    emit(json.dumps(value, ensure_ascii=False, indent=2))


def say(text: str) -> None:
    """Write a line for people to stderr."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        return  # nobody listens


def complain(error: MlpackError) -> None:
    """Write an error to stderr: its problems, itself, and what mends it."""
    for problem in error.problems:
        say(str(problem))
    say(f"{_red('error:')} {error}")
    if error.hint:
        say(f"hint: {error.hint}")


def error_as_json(error: MlpackError) -> dict[str, Any]:
    """Return an error as JSON has it: what `complain` writes, in parts."""
    return {
        "message": str(error),
        "hint": error.hint,
        "exit_code": error.exit_code,
        "problems": [asdict(problem) for problem in error.problems],
    }


@contextmanager
def progress(label: str, total: int, *, unit: str) -> Iterator[Callable[[int], None]]:
    """Give a function that takes steps done; draws a bar when stderr is a terminal, and nothing when it is not."""
    if not sys.stderr.isatty():
        yield lambda _steps: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def _red(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else f"\033[1;31m{text}\033[0m"

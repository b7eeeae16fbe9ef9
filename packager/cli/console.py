"""Prints: machine-readable output to stdout, everything for people to stderr.

Names, titles, logs and messages may come from others, so `printable` escapes the characters in them that a terminal
would act on or show differently. rich is slow to import, so only a progress bar imports it.

Tests: cli/test_printable.py.
"""

import io
import os
import re
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import typer

from packager.base.errors import MlpackError, ToolError, reason
from packager.base.masking import shortened

if TYPE_CHECKING:
    from packager.base.problems import Problem


Form = Literal["json", "yaml", "name"]
"""The values of `-o` for commands that print a result: the whole result, or only the names of what is in it."""

Output = Annotated[
    Form | None, typer.Option("-o", "--output", help="Print the result as JSON or YAML, or its names alone.")
]


class _State:
    """The state of the output during one run of the command."""

    def __init__(self) -> None:
        self.is_quiet = False  # whether only errors are printed to stderr
        self.is_closed = sys.stdout is None  # whether the caller has closed stdout
        self.has_emitted = False  # whether anything was written to stdout
        self.names: dict[str, str] = {}  # the names of paths in messages, such as the reference of a cached package


state = _State()

_LONGEST_CELL = 500
_LONGEST_LINE = 5_000
"""Characters of a line for people, and of a cell of a table, before they are escaped."""

BROKEN_PIPE_EXIT_CODE = 128 + signal.SIGPIPE
"""The exit code after the reader has closed stdout (`| head`): 128 + SIGPIPE, as in a shell."""


_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Control characters, format characters (bidirectional overrides among them), surrogates, separators of lines."""


def printable(text: str) -> str:
    r"""Return `text` on one line, with escapes such as `\x1b` for what a terminal acts on or does not show."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character == "\t" or unicodedata.category(character) not in _HIDDEN:
        return character
    if character in "\n\r":
        return r"\n" if character == "\n" else r"\r"
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def begin() -> None:
    """Open closed standard streams, and let all of them write UTF-8 in every locale."""
    vars(state).update(vars(_State()))
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:  # the null device gets the descriptor, which the next opened file would get
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(number, mode, closefd=False, encoding="utf-8"))  # noqa: SIM115 - as Python opens it
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def show_as(path: Path, name: str) -> None:
    """Print `name` in place of a path, which the user has not named, for the rest of the run."""
    state.names |= {str(path): name, str(path.resolve()): name}


def _named(text: str) -> str:
    for path, name in state.names.items():
        text = text.replace(path, name)
    return text


def _named_values(value: Any) -> Any:
    """Return a value of JSON with the names of paths in its texts."""
    if isinstance(value, str):
        return _named(value)
    if isinstance(value, Mapping):
        return {key: _named_values(item) for key, item in value.items()}
    return [_named_values(item) for item in value] if isinstance(value, list | tuple) else value


def can_draw() -> bool:
    """Return whether a picture may be drawn on stderr: it is a terminal, and messages are wanted there."""
    return sys.stderr.isatty() and not state.is_quiet


def emit(*lines: str) -> None:
    """Write lines for people to stdout, and flush each. Raises the errors of `emit_data`."""
    for line in lines:
        _write(f"{printable(_named(line))}\n")


def emit_data(text: str) -> None:
    """Write text for programs and a newline to stdout: unchanged, or escaped on a terminal.

    Raises:
        typer.Exit: The reader has closed stdout (`| head`); the exit code is BROKEN_PIPE_EXIT_CODE.
        ToolError: Writing to stdout fails (a full disk), or stdout was closed before the start.
    """
    if sys.stdout.isatty():
        emit(*text.removesuffix("\n").split("\n"))
    else:
        _write(text if text.endswith("\n") else f"{text}\n")


def emit_log(data: bytes) -> None:
    """Write a container's log to stdout: unchanged, or escaped on a terminal. Raises the errors of `emit_data`."""
    _write(b"\n".join(map(_on_terminal, data.split(b"\n"))) if sys.stdout.isatty() else data)


def _on_terminal(line: bytes) -> bytes:
    """Return the part of a log line that a terminal shows in the end, after its last carriage return, escaped."""
    text = line.removesuffix(b"\r").rpartition(b"\r")[2].decode(errors="surrogateescape")
    return printable(text).encode()


def emit_json(value: Any, *, indent: int | None = 2) -> None:
    """Write `value` to stdout as JSON, with escapes for all that is not ASCII. Raises the errors of `emit_data`."""
    import json

    value = _named_values(value) if state.names else value
    _write(json.dumps(value, indent=indent).replace("\x7f", r"\u007f") + "\n")


def emit_output(value: Any, names: Iterable[object], output: Form | None, lines: Iterable[str] | None = None) -> None:
    """Write a result to stdout in the form that the user asked for. Raises the errors of `emit_data`.

    Args:
        value: The whole result.
        names: The names of what is in it.
        output: The form; None for people.
        lines: The lines for people; None for the names.
    """
    if output is None and lines is not None:
        emit(*lines)
    elif output == "json":
        emit_json(value)
    elif output == "yaml":
        from packager.base.values import as_plain
        from packager.base.yamlio import dump

        text = dump([as_plain(_named_values(value))])
        emit_data(f"---\n{text}" if state.has_emitted else text)
    elif text := "\n".join(map(str, names)):
        emit_data(_named(text))


def table(rows: Sequence[Sequence[str]], gap: str = "  ") -> Iterator[str]:
    """Yield the lines of a table for people, whose columns `gap` separates.

    Args:
        rows: The heading, and the rows; one with a single cell is a heading of those below it, across all columns.
        gap: The text between two columns.
    """
    cells = [[printable(shortened(_named(cell), _LONGEST_CELL)) for cell in row] for row in rows]
    full = [row for row in cells if len(row) == len(cells[0])]  # none without a row
    widths = [max(map(len, column)) for column in zip(*full, strict=True)]
    for row in cells:
        yield gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=len(row) > 1)).rstrip()


def say(*lines: str) -> None:
    """Write lines for people to stderr, unless --quiet is set."""
    for line in lines if not state.is_quiet else ():
        _write_stderr(printable(shortened(_named(line), _LONGEST_LINE)))


def put_question(text: str) -> None:
    """Write a question to stderr; the answer is typed on the same line."""
    _write_stderr(printable(shortened(_named(text))), "")


def print_error(error: MlpackError) -> None:
    """Write an error to stderr: its problems, its message, and the hint how to fix it."""
    for problem in _listed(error):
        _write_stderr(printable(_named(str(problem))))
    _write_stderr(f"{_red('error:')} {printable(_named(str(error)))}")
    if error.hint:
        _write_stderr(printable(_named(f"hint: {error.hint}")))


def emit_error_json(error: MlpackError) -> None:
    """Write an error to stdout as JSON, unless the run has already written to stdout."""
    if not state.has_emitted:
        emit_json({"error": {**error.as_json(), "problems": [problem.as_json() for problem in _listed(error)]}})


def _listed(error: MlpackError) -> "Sequence[Problem]":
    from packager.base.problems import listed

    return listed(error.problems)


def wants_json(arguments: Sequence[str]) -> bool:
    """Return whether a command line, which may be invalid, asks for JSON."""
    options = "\n".join(arguments).partition("\n--\n")[0]
    return re.search("^(-[a-z]*o\n?|--output[\n=])json$", options, re.MULTILINE) is not None


@contextmanager
def progress(label: str, total: int, *, unit: str) -> Iterator[Callable[[int], None]]:
    """Give a function that adds completed steps; draw a progress bar if stderr is a terminal."""
    if not can_draw():
        yield lambda _steps: None
        return
    from rich import progress as rich
    from rich.console import Console

    count = rich.DownloadColumn() if unit == "bytes" else rich.MofNCompleteColumn()
    columns = (rich.TextColumn("{task.description}", markup=False), rich.BarColumn(), count, rich.TimeRemainingColumn())
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(label), total=total)
        yield lambda steps: bar.advance(task, steps)


def drop(stream: IO[str]) -> None:
    """Redirect a stream to the null device, so that flushing its buffer does not fail again when Python exits."""
    with suppress(OSError):  # the stream of a test has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _write(data: str | bytes) -> None:
    """Write to stdout and flush it. Raises the errors of `emit_data`."""
    if state.is_closed:
        raise ToolError("stdout is closed: the result cannot be written")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data if isinstance(data, bytes) else data.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()
    except OSError as error:
        drop(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(BROKEN_PIPE_EXIT_CODE) from None
        raise ToolError(f"stdout cannot be written: {reason(error)}") from None
    state.has_emitted = True


def _write_stderr(text: str, end: str = "\n") -> None:
    try:
        sys.stderr.write(f"{text}{end}")
        sys.stderr.flush()
    except OSError:  # stderr is closed
        drop(sys.stderr)


def _red(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else f"\033[1;31m{text}\033[0m"

"""The options of every verb of `mlpack task` that name the server, and the forms of their output."""

from __future__ import annotations

import functools
import inspect
import os
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.base.errors import TimedOutError, UsageError, unreadable
from packager.cli.asking import limited
from packager.cli.cluster_arguments import seconds
from packager.cli.console import emit, emit_data, emit_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.base.rest import RestServer

_MAX_TOKEN_FILE = 16 << 10


class Printed(StrEnum):
    """The values of `-o`."""

    yaml = "yaml"
    json = "json"
    name = "name"


Output = Annotated[
    Printed | None, typer.Option("-o", "--output", help="As JSON or YAML, or the names alone.", show_default=False)
]

ServerUrl = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="URL", envvar="MLPACK_SERVER", help="The address of the server.", show_default=False
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file with the token; by default $MLPACK_TOKEN.", show_default=False),
]
Insecure = Annotated[bool, typer.Option("--insecure", help="Send the token over http to another machine.")]
Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long to wait at most; by default 1m for the server, and without limit for a log or the end of a job.",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options that name the server.

    Attributes:
        server: The address of the server.
        token_file: The file with the token; None for the environment.
        insecure: Whether http is accepted for other machines too.
        timeout: The longest wait, as a duration; None for the default.
    """

    server: str | None
    token_file: Path | None
    insecure: bool
    timeout: str | None

    @contextmanager
    def connected(self, limit: str | None = None) -> Iterator[RestServer]:
        """Give a client of the server, whose requests end after `limit`, --timeout or a minute."""
        from packager.app.task_requests import connect

        if not self.server:
            raise UsageError("a server is missing: --server URL, or MLPACK_SERVER in the environment")
        limit = limit or self.timeout or "1m"
        shown = self.server.rpartition("@")[2]
        error = TimedOutError(f"{shown} has not answered after {limit}", hint="--timeout waits longer")
        with limited(seconds(limit), error):
            yield connect(self.server, self._token(), is_insecure=self.insecure)

    def _token(self) -> str | None:
        if self.token_file is None:
            return os.environ.get("MLPACK_TOKEN") or None
        try:
            with self.token_file.open("rb") as stream:
                return stream.read(_MAX_TOKEN_FILE).decode(errors="replace").strip()
        except OSError as error:
            raise unreadable(self.token_file, error) from None


_OPTIONS = {"server": ServerUrl, "token_file": TokenFile, "insecure": Insecure, "timeout": Timeout}
"""The options of each verb, as typer reads them; the fields of ServerOptions."""


def with_server(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the server to a verb, which gets them as one argument, `at`."""
    signature = inspect.signature(verb, eval_str=True)
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=False if name == "insecure" else None
        )
        for name, kind in _OPTIONS.items()
    ]
    verb_parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
        if parameter.name != "at"
    ]

    @functools.wraps(verb)
    def run(**arguments: Any) -> None:
        at = ServerOptions(**{name: arguments.pop(name) for name in _OPTIONS})
        verb(**arguments, at=at)

    parameters = [*verb_parameters, *options]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def emit_answer(answer: Any, names: Sequence[str], form: Printed) -> None:
    """Print the server's response in the form that the user asked for; `names` are printed for the form `name`."""
    if form is Printed.json:
        emit_json(answer)
    elif form is Printed.yaml:
        emit_yaml([answer])
    else:
        for name in names:
            emit(name)


def emit_yaml(values: Sequence[Any]) -> None:
    """Print each value as a YAML document."""
    from packager.base.yamlio import dump

    emit_data(dump(values))

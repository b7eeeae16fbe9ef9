"""The options of all verbs of `mlpack task`: the server, and the form of the output. Tests: cli/test_task.py."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - the options are made from the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.base.errors import TimedOutError, UsageError, unreadable
from packager.cli.asking import limited
from packager.cli.cluster_arguments import seconds
from packager.cli.console import emit_data
from packager.cli.option_groups import with_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.rest import RestServer

_MAX_TOKEN_FILE = 16 << 10


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options that name the server. Without a token file, the token is in the environment."""

    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", envvar="MLPACK_SERVER", help="The address of the server.")
    ] = None
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the token; by default $MLPACK_TOKEN.")
    ] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Send the token over http to another machine.")] = False
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long to wait at most; by default 1m for the server, and without limit for a log or the end of a"
            " job.",
        ),
    ] = None

    @contextmanager
    def connected(self, limit: str | None = None) -> Iterator[RestServer]:
        """Give a client of the server, whose requests end after `limit`, --timeout or a minute."""
        from packager.base.rest import server

        if not self.server:
            raise UsageError("a server is missing: --server URL, or MLPACK_SERVER in the environment")
        limit = limit or self.timeout or "1m"
        shown = self.server.rpartition("@")[2]
        error = TimedOutError(f"{shown} has not answered after {limit}", hint="--timeout waits longer")
        with limited(seconds(limit), error):
            yield server(self.server, self._token(), is_insecure=self.insecure)

    def _token(self) -> str | None:
        if self.token_file is None:
            return os.environ.get("MLPACK_TOKEN") or None
        try:
            with self.token_file.open("rb") as stream:
                return stream.read(_MAX_TOKEN_FILE).decode(errors="replace").strip()
        except OSError as error:
            raise unreadable(self.token_file, error) from None


with_server = with_options("at", ServerOptions)
"""Gives a verb the options that name the server: they are passed together, as `at`."""


def emit_yaml(values: Sequence[Any]) -> None:
    """Print each value as a YAML document."""
    from packager.base.yamlio import dump

    emit_data(dump(values))

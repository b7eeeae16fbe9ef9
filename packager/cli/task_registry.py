"""The commands of `mlpack task templates|definitions`: shows, registers and removes them. Tests: cli/test_task.py."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from packager.base.errors import TimedOutError, UsageError, unreadable
from packager.base.rest import RestServer
from packager.base.rest import server as connect
from packager.base.values import Value
from packager.base.yamlio import MAX_BYTES
from packager.cli.arguments import Yes, content_of
from packager.cli.asking import confirm_deletion, limited
from packager.cli.cluster_arguments import seconds
from packager.cli.commands import command
from packager.cli.console import Form, Output, emit, emit_json, emit_output, say, table
from packager.tasks import registry as use_case
from packager.tasks.registry import Kind, Registered

_MAX_TOKEN_FILE = 16 << 10


class ServerOptions(Value, frozen=True):
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


class _ShowsByDefault(TyperGroup):
    """A group of commands in which `show` is the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `show` unless the arguments begin with another command or ask for help."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def _group(kind: Kind, *, shown: str = "", applied: str = "", deleted: str = "") -> typer.Typer:
    """Return the commands for templates or definitions; the texts are added to their help."""
    one = kind.removesuffix("s")

    def show(
        at: ServerOptions,
        name: Annotated[str | None, typer.Argument(metavar="NAME", help=f"One {one}; by default all.")] = None,
        revision: Annotated[
            int | None, typer.Option(metavar="N", min=1, max=1_000_000_000, help="An earlier revision.")
        ] = None,
        output: Output = None,
    ) -> None:
        if revision is not None and name is None:
            raise UsageError(f"--revision needs the name of one of the {kind}")
        with at.connected() as to:
            _show(kind, name, use_case.registered(to, kind, name, revision), output)

    def apply(
        at: ServerOptions,
        file: Annotated[
            str,
            typer.Option(
                "-f",
                "--file",
                metavar="FILE",
                help="What to register: YAML, perhaps in several documents, or JSON; - for stdin.",
            ),
        ],
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Register nothing; check it, and say what would be done.")
        ] = False,
        output: Output = None,
    ) -> None:
        _apply(at, kind, file, output, send=use_case.trial if dry_run else use_case.apply)

    def delete(
        at: ServerOptions, name: Annotated[str, typer.Argument(metavar="NAME", help=f"The {one}.")], yes: Yes = False
    ) -> None:
        if not yes:
            confirm_deletion(f"Delete {one}/{name}?")
        with at.connected() as to:
            use_case.delete(to, kind, name)
        say(f"{one}/{name} deleted")

    group = typer.Typer(help=f"Show, register and remove task {kind}.", cls=_ShowsByDefault)
    show.__doc__ = f"List the task {kind}, or show one{shown}. `show` can be left out."
    apply.__doc__ = f"""Register {kind}, or their next revisions where they differ from the registered ones.

    A file has the keys of POST /v1/{kind}, or is what `-o yaml` has printed of a {one}, edited.{applied}
    """
    delete.__doc__ = f"Remove a {one}{deleted}. Jobs that were made with it stay."
    for verb in (show, apply, delete):
        group.command()(command(verb))
    return group


def _show(kind: Kind, name: str | None, answer: Any, output: Form | None) -> None:
    items: list[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
    if output is not None or name is not None:
        names = [str(item.get("name")) for item in items]
        emit_output(answer, names, output or "yaml", is_bounded=False)
        return
    has_template = kind == "definitions"
    rows = [("NAME", "REVISION", *(("TEMPLATE",) if has_template else ()), "DESCRIPTION")]
    for item in items:
        description = str(item.get("description") or "-").split("\n")[0]
        template = (str(item.get("task_template_name")),) if has_template else ()
        rows.append((str(item.get("name")), str(item.get("revision")), *template, description))
    if not items:
        say(f"no {kind}")
    emit(*(table(rows) if items else ()))


def _apply(at: ServerOptions, kind: Kind, file: str, output: Form | None, *, send: Callable[..., Registered]) -> None:
    done: list[Registered] = []
    for source in use_case.registrations(kind, content_of(file, MAX_BYTES)):
        with at.connected() as to:
            applied = send(to, kind, source)
        say(*(f"warning: {applied.name}: {warning}" for warning in applied.warnings))
        say(*(f"warning: {problem}" for problem in applied.problems))
        done.append(applied)
        if output is None:
            outcome: str = applied.outcome
            if outcome != "unchanged":
                is_trial = send is use_case.trial
                outcome = f"would be {outcome}" if is_trial else f"{outcome}: revision {applied.answer.get('revision')}"
            emit(f"{kind.removesuffix('s')}/{applied.name} {outcome}")
    answers = [applied.answer for applied in done]
    names = [applied.name for applied in done]
    emit_output(answers if len(answers) > 1 else answers[0], names, output, (), is_bounded=False)


def schema(
    at: ServerOptions,
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help="The definition.")],
) -> None:
    """Print the JSON Schema of the values that a definition takes."""
    with at.connected() as to:
        emit_json(use_case.schema(to, definition), is_bounded=False)


TEMPLATES = _group("templates", deleted=" that no definition uses")
DEFINITIONS = _group(
    "definitions",
    shown=": which values it takes, and an example",
    applied=" Each example\n    is filled in as a trial.",
)

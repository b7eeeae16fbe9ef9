"""`mlpack serve`: serves the REST API by which jobs are created from templates, definitions and filled values."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from packager.base.errors import ToolError, UsageError, missing_extra
from packager.base.names import is_label_value
from packager.base.rest import is_loopback
from packager.base.values import Value, replace
from packager.cli.commands import command, context
from packager.cli.console import Output, emit_output, say
from packager.service import config
from packager.service.config import ServerConfig, address
from packager.service.config_file import read

if TYPE_CHECKING:
    from packager.service.store.store import Store


class DatabaseOptions(Value, frozen=True):
    """The options that name the configuration and the database."""

    config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The configuration, server.yaml.")] = (
        None
    )
    database: Annotated[
        str | None,
        typer.Option(
            metavar="DATABASE",
            help="A file, or postgresql://…; by default that in MLPACK_DATABASE, then the configuration's, then "
            "mlpack/server.db in ~/.local/share.",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether one of both is named."""
        return bool(self.config or self.database)

    def settings(self, listen: str | None = None) -> ServerConfig:
        """Return the configuration, with the database and the address that the user names."""
        settings = read(self.config)
        if database := self.database or os.environ.get(config.DATABASE):
            settings = replace(settings, database=database)
        return replace(settings, listen=listen) if listen else settings

    def store(self) -> "Store":
        """Return the database, whose server may be running: its schema stays. Raises ToolError or UsageError."""
        store: Store = _service().open_store(self.settings(), migrates=False)
        return store


def serve(
    where: DatabaseOptions,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen; 127.0.0.1:8080 by default.")
    ] = None,
    insecure_no_auth: Annotated[
        bool, typer.Option("--insecure-no-auth", help="Ask for no token; only on a loopback address.")
    ] = False,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo", help="Serve a simulated cluster with some jobs, to look at; asks for no token, keeps nothing."
        ),
    ] = False,
) -> None:
    """Serve the page and the REST API of the task service until stopped, with the cluster of the current kubeconfig.

    Without a kubeconfig, the server starts too: definitions can be written and tried, and no job can be created.
    """
    invoked = context().invoked_subcommand
    if invoked is not None:
        if where.is_given or listen or insecure_no_auth or demo:
            raise UsageError(f"options of `mlpack serve` come after {invoked}, if it has them")
        return
    if demo and where.is_given:
        raise UsageError("--demo has a configuration and a database of its own")
    settings = where.settings(listen)
    if (insecure_no_auth or demo) and not is_loopback(address(settings.listen)[0]):
        option = "--demo" if demo else "--insecure-no-auth"
        raise UsageError(f"{option} needs a loopback address, found {settings.listen}", hint="create tokens instead")
    if demo:
        _service().demonstrate(settings.listen, emit=say, tell=say)
    else:
        _service().start(settings, is_open=insecure_no_auth, emit=say, tell=say)


def token(
    where: DatabaseOptions,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who the token is for.")],
    role: Annotated[Literal["viewer", "user", "developer", "admin"], typer.Option(help="What they may do.")] = "user",
    project: Annotated[str | None, typer.Option(metavar="NAME", help="In which project; in all by default.")] = None,
    days: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=3650, help="How long it is valid; without end by default.")
    ] = None,
    output: Output = None,
) -> None:
    """Create a token, and print it. It is not shown again: the database holds its digest only."""
    if not is_label_value(name) or not name:
        raise UsageError(f"invalid name {name!r}: use at most 63 letters, digits and '-_.'")
    projects = tuple(where.settings().projects) or ("default",)
    if project is not None and project not in projects:
        raise UsageError(f"project {project!r} not found: the configuration has {', '.join(projects)}")
    store = where.store()
    from packager.service.access import tokens

    row, text = tokens.create(store, name, role, days, project)
    made = {"id": row.id, "name": name, "role": role, "project": project, "expires": row.expires, "token": text}
    emit_output(made, [text], output)


def backup(
    where: DatabaseOptions,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    output: Output = None,
) -> None:
    """Write a copy of the database, as of one moment; the server may be running."""
    where.store().database.backup(file)
    emit_output({"file": str(file)}, [file], output)


def migrate(where: DatabaseOptions, output: Output = None) -> None:
    """Bring the database to the schema of this mlpack, as a server does when it starts."""
    store: Store = _service().open_store(where.settings(), is_served=True)
    state = {"database": store.shown, "migrated": store.was_migrated}
    emit_output(state, [store.shown], output, [f"{store.shown}: {'migrated' if store.was_migrated else 'up to date'}"])


def check(where: DatabaseOptions, output: Output = None) -> None:
    """Check the configuration and the database; exit code 2 for the former, 6 if a row is damaged."""
    service, settings = _service(), where.settings()
    service.signing_secrets(settings)
    service.client(settings, service.issuer(settings))
    service.permissions.of_settings(settings, "of the kubeconfig")
    say(*service.confinement_gaps())
    store = where.store()
    problems = store.database.check()
    jobs = sum(store.counts().values())
    state = {"database": store.shown, "jobs": jobs, "problems": problems}
    lines = [f"{store.shown}: {problem}" for problem in problems] or [f"{store.shown}: ok, {jobs} jobs"]
    emit_output(state, [store.shown], output, lines)
    if problems:
        raise ToolError(f"the database {store.shown} is damaged", hint="restore a backup")


def _service() -> Any:
    """Return the module that needs the packages of the extra `service`."""
    try:
        from packager.service import serving
    except ModuleNotFoundError as error:
        raise missing_extra("mlpack serve", error, "service") from None
    return serving


GROUP = typer.Typer(invoke_without_command=True)
GROUP.callback()(command(serve))
for _verb in (token, backup, migrate, check):
    GROUP.command()(command(_verb))

"""`mlpack serve`: serves the REST API by which jobs are created from templates, definitions and filled values."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.base.errors import ToolError, UsageError, missing_extra
from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.console import OutputFormat, emit_lines, emit_output, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.service.config import ServerConfig
    from packager.service.store.store import Store


class Role(StrEnum):
    """The permissions of a token's owner."""

    viewer = "viewer"
    user = "user"
    developer = "developer"
    admin = "admin"


ConfigFile = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="The configuration, server.yaml.")]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="DATABASE",
        help="A file, or postgresql://…; by default that in MLPACK_DATABASE, then the configuration's, then "
        "mlpack/server.db in ~/.local/share.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    group = typer.Typer(invoke_without_command=True)
    group.callback()(serve)
    for verb in (token, backup, migrate, check):
        group.command()(verb)
    app.add_typer(group, name="serve")


def serve(
    ctx: typer.Context,
    config: ConfigFile = None,
    database: Database = None,
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
    if ctx.invoked_subcommand is not None:
        if config or database or listen or insecure_no_auth or demo:
            raise UsageError(f"options of `mlpack serve` come after {ctx.invoked_subcommand}, if it has them")
        return
    if demo and (config or database):
        raise UsageError("--demo has a configuration and a database of its own")
    settings = _settings(config, database, listen)
    from packager.base.rest import is_loopback
    from packager.service.config import address

    if (insecure_no_auth or demo) and not is_loopback(address(settings.listen)[0]):
        option = "--demo" if demo else "--insecure-no-auth"
        raise UsageError(f"{option} needs a loopback address, found {settings.listen}", hint="create tokens instead")
    if demo:
        _service().demonstrate(settings.listen, emit=say, tell=say)
    else:
        _service().start(settings, is_open=insecure_no_auth, emit=say, tell=say)


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who the token is for.")],
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.user,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="In which project; in all by default.")] = None,
    days: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=3650, help="How long it is valid; without end by default.")
    ] = None,
    config: ConfigFile = None,
    database: Database = None,
    output: Output = None,
) -> None:
    """Create a token, and print it. It is not shown again: the database holds its digest only."""
    from packager.base.names import is_label_value

    if not is_label_value(name) or not name:
        raise UsageError(f"invalid name {name!r}: use at most 63 letters, digits and '-_.'")
    projects = tuple(_settings(config, database).projects) or ("default",)
    if project is not None and project not in projects:
        raise UsageError(f"project {project!r} not found: the configuration has {', '.join(projects)}")
    store = _store(config, database)
    from packager.service.access import tokens

    row, text = tokens.create(store, name, role.value, days, project)
    made = {"id": row.id, "name": name, "role": role.value, "project": project, "expires": row.expires, "token": text}
    emit_output(made, [text], output or OutputFormat.name)


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    config: ConfigFile = None,
    database: Database = None,
    output: Output = None,
) -> None:
    """Write a copy of the database, as of one moment; the server may be running."""
    store = _store(config, database)
    store.database.backup(file)
    emit_output({"file": str(file)}, [str(file)], output or OutputFormat.name)


def migrate(
    config: ConfigFile = None,
    database: Database = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="DATABASE", help="Copy everything from this database.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--to", metavar="DATABASE", help="Copy it to this one, which is empty.")
    ] = None,
    output: Output = None,
) -> None:
    """Bring the database to the schema of this mlpack, as a server does when it starts; or copy it to another one.

    Stop the server before you copy its database: what it stores later is not copied.
    """
    if (source is None) != (target is None) or (source and (config or database)):
        raise UsageError("--from and --to are given together, and without --config and --database")
    if source is None or target is None:
        store: Store = _service().open_store(_settings(config, database), is_served=True)
        state = {"database": store.shown, "migrated": store.was_migrated}
        _emit(state, [f"{store.shown}: {'migrated' if store.was_migrated else 'up to date'}"], [store.shown], output)
        return
    counts = _service().copy(source, target)
    _emit({"rows": counts}, [f"{table}: {count}" for table, count in counts.items()], counts, output)


def check(config: ConfigFile = None, database: Database = None, output: Output = None) -> None:
    """Check the configuration and the database; exit code 2 for the former, 6 if a row is damaged."""
    service, settings = _service(), _settings(config, database)
    service.signing_secrets(settings)
    service.client(settings, service.issuer(settings))
    service.check_projects(settings)
    for warning in service.confinement_gaps():
        say(warning)
    store = _store(config, database)
    problems = store.database.check()
    jobs = sum(store.counts().values())
    state = {"database": store.shown, "jobs": jobs, "problems": problems}
    lines = [f"{store.shown}: {problem}" for problem in problems] or [f"{store.shown}: ok, {jobs} jobs"]
    _emit(state, lines, [store.shown], output)
    if problems:
        raise ToolError(f"the database {store.shown} is damaged", hint="restore a backup")


def _emit(value: dict[str, object], lines: Iterable[str], names: Iterable[str], output: OutputFormat | None) -> None:
    """Print a result in the form that the user asked for; as lines without one."""
    if output is None:
        emit_lines("\n".join(lines))
    else:
        emit_output(value, names, output)


def _settings(config: Path | None, database: str | None, listen: str | None = None) -> ServerConfig:
    from packager.base.values import replace
    from packager.service import variables
    from packager.service.config_file import read

    settings = read(config)
    database = database or os.environ.get(variables.DATABASE)
    if database:
        settings = replace(settings, database=database)
    return replace(settings, listen=listen) if listen else settings


def _store(config: Path | None, database: str | None) -> Store:
    """Return the database, whose server may be running: its schema stays. Raises ToolError or UsageError."""
    store: Store = _service().open_store(_settings(config, database), migrates=False)
    return store


def _service() -> Any:
    """Return the module that needs the packages of the extra `service`."""
    try:
        from packager.service import serving
    except ModuleNotFoundError as error:
        raise missing_extra("mlpack serve", error, "service") from None
    return serving

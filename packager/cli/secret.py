"""`mlpack secret create`: creates the Secret that a package reads, without a value on any command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import UnansweredError, UsageError
from packager.cli.arguments import Output, content_of
from packager.cli.asking import ask_hidden, has_terminal
from packager.cli.cluster_arguments import ClusterOptions, DryRun, PackageToRead, with_cluster
from packager.cli.console import OutputFormat, emit_output, say

if TYPE_CHECKING:
    from packager.app.secret import NeededSecret

_TRIES = 5


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    group = typer.Typer(help="Create the Secret that contains a package's secrets.", no_args_is_help=True)
    group.command()(create)
    group.callback()(lambda: None)
    app.add_typer(group, name="secret")


@with_cluster
def create(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackageToRead,
    env_file: Annotated[
        str | None,
        typer.Option(
            "--from-env-file",
            metavar="FILE",
            help="Read the values from a file with a KEY=value per line, or - for stdin, instead of asking.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace these keys of an existing Secret, and keep its other keys.")
    ] = False,
    dry_run: Annotated[
        DryRun | None, typer.Option(help="Create nothing, ask for no value; show what would be.")
    ] = None,
    output: Output = None,
) -> None:
    """Create the Secret that the pods of a package read; on a terminal, it asks for each value without showing it.

    kubectl reads the values on its stdin. They are written to no file and shown nowhere.
    """
    from packager.app import secret as use_case
    from packager.cli.registry_arguments import local_package

    client = at.client(ctx)
    package = local_package(ctx, package)
    needed = use_case.needed(package)
    if dry_run:
        values = {}
    elif env_file is not None:
        text, name = content_of(env_file, use_case.MAX_BYTES)
        values = use_case.values(text, name, needed)
    else:
        values = _answers(needed)
    created = use_case.create(client, needed, values, force=force, dry_run=dry_run)
    emit_output(created.as_json(), [f"secret/{created.name}"], output or OutputFormat.name)
    if output in (OutputFormat.json, OutputFormat.yaml):
        return
    keys, state = ", ".join(created.keys), "would be created" if created.dry_run else "created"
    say(f"{state} in {created.namespace} with {keys}")


def _answers(needed: NeededSecret) -> dict[str, str]:
    """Ask for the value of each key, and return the values by key.

    Raises:
        UnansweredError: There is no terminal to ask on.
        UsageError: The user gave no valid answer.
        MlpackError: The input has ended.
    """
    if not has_terminal():
        hint = "--from-env-file FILE reads the values from a file, or from stdin with -"
        raise UnansweredError("nothing was created: there is no terminal to ask on", hint=hint)
    say(f"the Secret {needed.name}: what you type is not shown")
    return {key: _answer(key, description) for key, description in needed.keys.items()}


def _answer(key: str, description: str) -> str:
    from packager.app.secret import complaint_about

    for _ in range(_TRIES):
        value = ask_hidden(f"{key} ({description.rstrip('.')})" if description else key)
        complaint = complaint_about(value)
        if complaint is None:
            return value
        say(f"{key}: {complaint}")
    raise UsageError(f"no valid answer in {_TRIES} attempts; nothing was created")

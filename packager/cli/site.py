"""`mlpack site init|show|check`: the defaults of a site."""

from __future__ import annotations

import json
import shlex
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.base.errors import UsageError
from packager.base.paths import argument
from packager.cli.arguments import Output, SiteFile, find_site, site_path
from packager.cli.asking import ask, has_terminal
from packager.cli.cluster_arguments import ClusterOptions, with_cluster
from packager.cli.console import OutputFormat, emit, emit_output, emit_table, say

if TYPE_CHECKING:
    from packager.site.read import SiteSettings


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Create, show and check the defaults of a site.", no_args_is_help=True)
    for verb in (init, show, check):
        group.command()(verb)
    app.add_typer(group, name="site")


def init(
    site_file: SiteFile = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Ask nothing: every value is commented out.")] = False,
    output: Output = None,
) -> None:
    """Write a commented site.yaml; on a terminal, it asks for the values that most sites have."""
    from packager.site.example import QUESTIONS, create

    path = site_file or site_path()
    values = {} if yes or not has_terminal() else _answers(QUESTIONS)
    create(path, values, force=force)
    emit_output({"file": str(path), "values": values}, [str(path)], output or OutputFormat.name)
    named = ["--site-file", argument(path)] if site_file else []
    say(f"edit it, then: {shlex.join(['mlpack', 'site', 'show', *named])}")


def show(site_file: SiteFile = None, output: Output = None) -> None:
    """Print the defaults that are in effect, and which line of which file sets each."""
    site = _site(site_file)
    if output is not None:
        values = [{"key": entry.key, "value": entry.value, "from": entry.place} for entry in site.entries]
        emit_output({"file": str(site.path), "values": values}, [entry.key for entry in site.entries], output)
    else:
        rows = [[entry.key, _text(entry.value), entry.place] for entry in site.entries]
        emit_table([["KEY", "VALUE", "FROM"], *rows])
        if not site.entries:
            say(f"{site.path} sets no default: remove the # before those that you need")


@with_cluster
def check(
    ctx: typer.Context,
    at: ClusterOptions,
    site_file: SiteFile = None,
    output: Output = None,
) -> None:
    """Ask the cluster for the claims, classes, queues, secrets and node labels that the file names; one line each.

    Exit code 1 when something is missing, 6 when nothing is missing but something could not be checked.
    """
    from packager.cluster.sitecheck import check as ask_cluster

    site = _site(site_file)
    checked = ask_cluster(site, at.client(ctx))
    if output is not None:
        emit_output(checked.as_json(), [result.subject for result in checked.checks], output)
    else:
        for result in checked.checks:
            emit(f"{result.state:8} {result.subject} ({result.place})" + (f": {result.message}" * bool(result.message)))
        say(f"{len(checked.checks)} checked in the namespace {checked.namespace}")
    raise typer.Exit(checked.exit_code)


def _site(file: Path | None) -> SiteSettings:
    site = find_site(file)
    if site is None:
        raise UsageError(f"there is no {site_path()}", hint="`mlpack site init` writes one")
    return site


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _answers(questions: dict[str, str]) -> dict[str, str]:
    answers = {key: ask(question, "none") for key, question in questions.items()}
    return {key: answer for key, answer in answers.items() if answer != "none"}

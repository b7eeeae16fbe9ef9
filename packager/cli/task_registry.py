"""`mlpack task templates|definitions`: shows, registers and removes them. Tests: cli/test_task.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from packager.base.errors import UsageError
from packager.cli.arguments import Output, content_of
from packager.cli.asking import confirm_deletion
from packager.cli.cluster_arguments import Yes
from packager.cli.console import OutputFormat, emit, emit_json, emit_output, emit_table, say
from packager.cli.task_arguments import ServerOptions, with_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.rest import RestServer
    from packager.tasks.registry import Kind, Registered

Revision = Annotated[int | None, typer.Option(metavar="N", min=1, max=1_000_000_000, help="An earlier revision.")]
File = Annotated[
    str,
    typer.Option(
        "-f",
        "--file",
        metavar="FILE",
        help="What to register: YAML, perhaps in several documents, or JSON; - for stdin.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Register nothing; check it, and say what would be done.")]
Template = Annotated[str, typer.Argument(metavar="NAME", help="The template.")]
Definition = Annotated[str, typer.Argument(metavar="NAME", help="The definition.")]


class _ShowsByDefault(TyperGroup):
    """A group of commands in which `show` is the default."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `show` unless the arguments begin with another command or ask for help."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


def add_to(group: typer.Typer) -> None:
    """Add the verbs to the group of `mlpack task`."""
    templates = typer.Typer(help="Show, register and remove task templates.", cls=_ShowsByDefault)
    for name, verb in (("show", show_templates), ("apply", apply_templates), ("delete", delete_template)):
        templates.command(name=name)(verb)
    group.add_typer(templates, name="templates")
    definitions = typer.Typer(help="Show, register and remove task definitions.", cls=_ShowsByDefault)
    for name, verb in (("show", show_definitions), ("apply", apply_definitions), ("delete", delete_definition)):
        definitions.command(name=name)(verb)
    group.add_typer(definitions, name="definitions")
    group.command()(schema)


@with_server
def show_templates(
    at: ServerOptions,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One template; by default all.")] = None,
    revision: Revision = None,
    output: Output = None,
) -> None:
    """List the task templates, or show one. `show` can be left out."""
    with at.connected() as to:
        _show(to, "templates", name, revision, output)


@with_server
def apply_templates(at: ServerOptions, file: File, dry_run: DryRun = False, output: Output = None) -> None:
    """Register templates, or their next revisions where they differ from the registered ones.

    A file has the keys of POST /v1/templates, or is what `-o yaml` has printed of a template, edited.
    """
    _apply(at, "templates", file, output, is_trial=dry_run)


@with_server
def delete_template(at: ServerOptions, name: Template, yes: Yes = False) -> None:
    """Remove a template that no definition uses. Jobs that were made with it stay."""
    _delete(at, "templates", name, is_sure=yes)


@with_server
def show_definitions(
    at: ServerOptions,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One definition; by default all.")] = None,
    revision: Revision = None,
    output: Output = None,
) -> None:
    """List the task definitions, or show one: which values it takes, and an example. `show` can be left out."""
    with at.connected() as to:
        _show(to, "definitions", name, revision, output)


@with_server
def apply_definitions(at: ServerOptions, file: File, dry_run: DryRun = False, output: Output = None) -> None:
    """Register definitions, or their next revisions where they differ from the registered ones.

    A file has the keys of POST /v1/definitions, or is what `-o yaml` has printed of a definition, edited. Each example
    is filled in as a trial.
    """
    _apply(at, "definitions", file, output, is_trial=dry_run)


@with_server
def delete_definition(at: ServerOptions, name: Definition, yes: Yes = False) -> None:
    """Remove a definition. Jobs that were made with it stay."""
    _delete(at, "definitions", name, is_sure=yes)


@with_server
def schema(
    at: ServerOptions,
    definition: Annotated[str, typer.Argument(metavar="DEFINITION", help="The definition.")],
) -> None:
    """Print the JSON Schema of the values that a definition takes."""
    from packager.tasks.registry import schema as ask_schema

    with at.connected() as to:
        emit_json(ask_schema(to, definition), is_bounded=False)


def _show(to: RestServer, kind: Kind, name: str | None, revision: int | None, output: OutputFormat | None) -> None:
    from packager.tasks.registry import registered

    if revision is not None and name is None:
        raise UsageError(f"--revision needs the name of one of the {kind}")
    answer: Any = registered(to, kind, name, revision)
    items: Sequence[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
    if output is not None or name is not None:
        emit_output(answer, [str(item.get("name")) for item in items], output or OutputFormat.yaml, is_bounded=False)
    elif items:
        over = kind == "definitions"
        rows = [("NAME", "REVISION", *(("TEMPLATE",) if over else ()), "DESCRIPTION")]
        for item in items:
            description = str(item.get("description") or "-").split("\n")[0]
            template = (str(item.get("task_template_name")),) if over else ()
            rows.append((str(item.get("name")), str(item.get("revision")), *template, description))
        emit_table(rows, gap="  ")
    else:
        say(f"no {kind}")


def _apply(at: ServerOptions, kind: Kind, file: str, output: OutputFormat | None, *, is_trial: bool) -> None:
    from packager.base.yamlio import MAX_BYTES
    from packager.tasks import registry as use_case

    sources = use_case.registrations(kind, content_of(file, MAX_BYTES))
    done: list[Registered] = []
    for source in sources:
        with at.connected() as to:
            applied = use_case.trial(to, kind, source) if is_trial else use_case.apply(to, kind, source)
        for warning in applied.warnings:
            say(f"warning: {applied.name}: {warning}")
        for problem in applied.problems:
            say(f"warning: {problem}")
        done.append(applied)
        if output is None:
            emit(_outcome(kind, applied, is_trial=is_trial))
    answers = [applied.answer for applied in done]
    if output is not None:
        emit_output(
            answers if len(answers) > 1 else answers[0], [applied.name for applied in done], output, is_bounded=False
        )


def _outcome(kind: Kind, applied: Registered, *, is_trial: bool) -> str:
    what = f"{kind.removesuffix('s')}/{applied.name}"
    if applied.outcome == "unchanged":
        return f"{what} unchanged"
    if is_trial:
        return f"{what} would be {applied.outcome}"
    return f"{what} {applied.outcome}: revision {applied.answer.get('revision')}"


def _delete(at: ServerOptions, kind: Kind, name: str, *, is_sure: bool) -> None:
    from packager.tasks.registry import delete

    what = f"{kind.removesuffix('s')}/{name}"
    if not is_sure:
        confirm_deletion(f"Delete {what}?")
    with at.connected() as to:
        delete(to, kind, name)
    say(f"{what} deleted")

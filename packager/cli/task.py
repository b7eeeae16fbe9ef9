"""`mlpack task`: the client of a task service."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.base.errors import TimedOutError, UnansweredError, UsageError, unreadable
from packager.cli.asking import limited, require_yes
from packager.cli.cluster_arguments import Yes, seconds
from packager.cli.console import emit, emit_data, emit_json, emit_log, emit_table, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.app.task import TaskJob
    from packager.base.rest import RestServer

_MAX_TOKEN_FILE = 16 << 10


class Printed(StrEnum):
    """What `-o` takes."""

    yaml = "yaml"
    json = "json"
    name = "name"


class Storage(StrEnum):
    """What becomes of the claims of a deleted job."""

    keep = "keep"
    delete = "delete"


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
Output = Annotated[
    Printed | None, typer.Option("-o", "--output", help="As JSON or YAML, or the names alone.", show_default=False)
]
Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="How long to wait at most; by default 1m for the server, and without limit for the end of a job.",
        show_default=False,
    ),
]
Release = Annotated[str, typer.Argument(metavar="JOB", help="A job, by its release.", show_default=False)]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")]
Revision = Annotated[
    int | None, typer.Option(min=1, max=1_000_000_000, help="An earlier revision.", show_default=False)
]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Create and follow the jobs of a task service.", no_args_is_help=True)
    for verb in (templates, definitions, schema, create, status, logs, cancel, rerun, delete):
        group.command()(verb)
    group.command(name="list")(list_jobs)
    app.add_typer(group, name="task")


def templates(
    name: Annotated[str | None, typer.Argument(help="One template; by default all.", show_default=False)] = None,
    revision: Revision = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """List the task templates, or show one."""
    with _asked(server, token_file, timeout, insecure=insecure) as to:
        _show_registered(to, "templates", name, revision, output)


def definitions(
    name: Annotated[str | None, typer.Argument(help="One definition; by default all.", show_default=False)] = None,
    revision: Revision = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """List the task definitions, or show one: which values it takes, and an example."""
    with _asked(server, token_file, timeout, insecure=insecure) as to:
        _show_registered(to, "definitions", name, revision, output)


def schema(
    definition: Annotated[str, typer.Argument(help="The definition.", show_default=False)],
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
) -> None:
    """Print the JSON Schema of the values that a definition takes."""
    from packager.app.task import schema as ask_schema

    with _asked(server, token_file, timeout, insecure=insecure) as to:
        emit_json(ask_schema(to, definition))


def create(
    ctx: typer.Context,
    definition: Annotated[
        str | None,
        typer.Argument(help="The definition, unless `taskDef` is among the values.", show_default=False),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("-f", "--file", metavar="FILE", help="The values, YAML or JSON; - for stdin.", show_default=False),
    ] = None,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Set a value: process.train.number=5. Repeatable.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer copies it
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Its project.", show_default=False)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Create nothing; print the manifests.")] = False,
    wait: Wait = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="KEY",
            help="The same key and values make one job, for 24 hours.",
            show_default=False,
        ),
    ] = None,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Create a job from a definition and filled values.

    With --wait, exit code 0 when it has succeeded, 7 when it has failed or was deleted, 8 after --timeout.
    """
    from packager.app import task as use_case
    from packager.cli.host import host

    if dry_run and wait:
        raise UsageError("--dry-run and --wait cannot be combined")
    if definition is None and file is None and not settings:
        raise UsageError("a definition is missing", hint="mlpack task definitions lists them")
    filled = use_case.filled_values(definition, _read(file) if file else None, settings, project)
    with _asked(server, token_file, None if wait else timeout, insecure=insecure) as to:
        if dry_run:
            preview = use_case.preview(to, filled)
            for warning in preview.warnings:
                say(f"warning: {warning}")
            if output is Printed.name:
                for manifest in preview.manifests:
                    emit(_object_name(manifest))
            elif output is Printed.json:
                emit_json(preview.as_json())
            else:
                _emit_yaml(preview.manifests)
            return
        job = use_case.create(to, filled, host(ctx).runner, key)
    if wait:
        say(f"{job.summary.release} created")
        _wait(ctx, to, job.summary.release, timeout, output)
    else:
        _created(job, output)


def list_jobs(
    status: Annotated[str | None, typer.Option(help="Those with this status.", show_default=False)] = None,
    definition: Annotated[str | None, typer.Option(help="Those of this definition.", show_default=False)] = None,
    creator: Annotated[str | None, typer.Option(help="Those of this person.", show_default=False)] = None,
    application: Annotated[str | None, typer.Option(help="Those of this application.", show_default=False)] = None,
    project: Annotated[str | None, typer.Option(help="Those of this project.", show_default=False)] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Created then or later: 2026-11-22T10:00.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Created before.", show_default=False)] = None,
    part: Annotated[
        str | None, typer.Option("-q", metavar="TEXT", help="With this in the name.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="How many at most; 0 for all.")] = 50,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """List jobs, the newest first."""
    from packager.app.task import JobFilters
    from packager.app.task import jobs as ask_jobs

    filters = JobFilters(status, definition, creator, application, project, since, until, part)
    with _asked(server, token_file, timeout, insecure=insecure) as to:
        answer = ask_jobs(to, filters, limit)
    names = [job.summary.release for job in answer.jobs]
    if output is not None:
        _emit(answer.as_json(), names, output)
    elif answer.jobs:
        now = datetime.now(UTC)
        rows = [("JOB", "STATUS", "REASON", "DEFINITION", "CREATOR", "AGE")]
        for job in answer.jobs:
            one = job.summary
            name = str(one.definition.get("name") or "-")
            rows.append((one.release, one.status, one.reason or "-", name, one.creator or "-", _age(one.created, now)))
        emit_table(rows, gap="  ")
    else:
        say("no jobs")
    if not answer.are_all:
        say(f"there are more than {limit}: --limit 0 lists all")


def status(
    ctx: typer.Context,
    release: Release,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Print each change until it has ended.")] = False,
    wait: Wait = False,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Show the state of a job, and the reasons.

    Exit code 0 while all is well and after success, 7 when it has failed or was deleted, 8 after --timeout.
    """
    from packager.app.task import job as ask_job

    if watch or wait:
        with _asked(server, token_file, "0", insecure=insecure) as to:
            _wait(ctx, to, release, timeout, output, is_quiet=not watch)
        return
    with _asked(server, token_file, timeout, insecure=insecure) as to:
        job = ask_job(to, release)
    _show(job, output)


def logs(
    ctx: typer.Context,
    release: Release,
    pod: Annotated[str | None, typer.Option(help="One pod; by default all.", show_default=False)] = None,
    container: Annotated[
        str | None, typer.Option("-c", "--container", help="One container of it.", show_default=False)
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=0, max=1_000_000, help="The last lines alone.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until it has ended.")] = False,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
) -> None:
    """Print the log of a job."""
    from packager.app.task import log
    from packager.cli.host import host

    with _asked(server, token_file, "0", insecure=insecure) as to:
        runner = host(ctx).runner
        parts = log(to, release, runner, pod=pod, container=container, tail=tail, is_following=follow, tell=say)
        for part in parts:
            emit_log(part)


def cancel(
    release: Release,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Stop a job. Its record and its claims stay."""
    from packager.app.task import cancel as ask_cancel

    with _asked(server, token_file, timeout, insecure=insecure) as to:
        job = ask_cancel(to, release)
    if output is None:
        say(f"{job.summary.release} is being stopped")
    else:
        _emit(job.as_json(), [job.summary.release], output)


def rerun(
    ctx: typer.Context,
    release: Release,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="With the revisions of template and definition of then.")
    ] = False,
    wait: Wait = False,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Create a job with the values of another one."""
    from packager.app.task import rerun as ask_rerun
    from packager.cli.host import host

    with _asked(server, token_file, None if wait else timeout, insecure=insecure) as to:
        job = ask_rerun(to, release, host(ctx).runner, is_pinned=pinned)
    if wait:
        say(f"{job.summary.release} created")
        _wait(ctx, to, job.summary.release, timeout, output)
    else:
        _created(job, output)


def delete(
    release: Release,
    storage: Annotated[Storage, typer.Option(help="Whether its claims, which hold results, stay.")] = Storage.keep,
    yes: Yes = False,
    server: ServerUrl = None,
    token_file: TokenFile = None,
    insecure: Insecure = False,
    timeout: Timeout = None,
) -> None:
    """Stop a job, and delete its objects and its record; its claims only with --storage delete."""
    from packager.app.task import delete as ask_delete

    what = f"{release}{' and its claims, with all results' if storage is Storage.delete else ''}"
    if not yes:
        unanswered = UnansweredError("nothing was deleted: there is no terminal to ask on", hint="-y answers yes")
        require_yes(f"Delete {what}?", unanswered=unanswered, declined="nothing was deleted")
    with _asked(server, token_file, timeout, insecure=insecure) as to:
        ask_delete(to, release, with_storage=storage is Storage.delete)
    say(f"{what} is being deleted")


@contextmanager
def _asked(url: str | None, token_file: Path | None, timeout: str | None, *, insecure: bool) -> Iterator[RestServer]:
    """Give the server that the options and the environment name, for so long at most."""
    from packager.app.task import connect

    if not url:
        raise UsageError("a server is missing: --server URL, or MLPACK_SERVER in the environment")
    limit = timeout or "1m"
    error = TimedOutError(f"{url.rpartition('@')[2]} has not answered after {limit}", hint="--timeout waits longer")
    with limited(seconds(limit), error):
        yield connect(url, _token(token_file), is_insecure=insecure)


def _token(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get("MLPACK_TOKEN") or None
    try:
        with file.open("rb") as stream:
            return stream.read(_MAX_TOKEN_FILE).decode(errors="replace").strip()
    except OSError as error:
        raise unreadable(file, error) from None


def _read(file: str) -> tuple[bytes, str]:
    """Return the content of a file, or of stdin, and how messages name it."""
    from packager.base.yamlio import MAX_BYTES

    if file == "-":
        return sys.stdin.buffer.read(MAX_BYTES + 1), "stdin"
    try:
        with Path(file).open("rb") as stream:
            return stream.read(MAX_BYTES + 1), file
    except OSError as error:
        raise unreadable(file, error) from None


def _show_registered(to: RestServer, kind: str, name: str | None, revision: int | None, output: Printed | None) -> None:
    from packager.app.task import registered

    if revision is not None and name is None:
        raise UsageError(f"--revision needs the name of one of the {kind}")
    answer: Any = registered(to, kind, name, revision)
    items: Sequence[dict[str, Any]] = answer if isinstance(answer, list) else [answer]
    if output is not None or name is not None:
        _emit(answer, [str(item.get("name")) for item in items], output or Printed.yaml)
    elif items:
        over = kind == "definitions"
        rows = [("NAME", "REVISION", *(("MADE FROM",) if over else ()), "DESCRIPTION")]
        for item in items:
            description = str(item.get("description") or "-").split("\n")[0]
            made_from = (_made_from(item),) if over else ()
            rows.append((str(item.get("name")), str(item.get("revision")), *made_from, description))
        emit_table(rows, gap="  ")
    else:
        say(f"no {kind}")


def _made_from(definition: dict[str, Any]) -> str:
    """Return the template or the package of a definition."""
    origin = definition.get("origin")
    if isinstance(origin, dict):
        return f"package {origin.get('name')}, {origin.get('overlay')}"
    return str(definition.get("task_template_name"))


def _created(job: TaskJob, output: Printed | None) -> None:
    if output is None:
        emit_data(job.summary.release)
        say(f"created; follow it with: mlpack task logs -f {job.summary.release}")
    else:
        _emit(job.as_json(), [job.summary.release], output)


def _wait(
    ctx: typer.Context,
    to: RestServer,
    release: str,
    timeout: str | None,
    output: Printed | None,
    *,
    is_quiet: bool = False,
) -> None:
    """Follow a job to its end, and show it."""
    from packager.app.task import follow
    from packager.cli.host import host

    runner = host(ctx).runner
    begin = runner.clock()
    limit = (seconds(timeout) or None) if timeout else None
    with limited(limit, TimedOutError(f"{release} has not ended after {timeout}")):
        for job in follow(to, release, runner, limit):
            if not is_quiet and not job.has_ended:
                elapsed = int(runner.clock() - begin)
                say(f"{elapsed // 60:02}:{elapsed % 60:02}  {_sentence(job)}")
    _show(job, output)


def _sentence(job: TaskJob) -> str:
    """Return status, reason and message on one line."""
    reason = f" ({job.summary.reason})" if job.summary.reason else ""
    message = f": {job.summary.message}" if job.summary.message else ""
    return f"{job.summary.status}{reason}{message}"


def _show(job: TaskJob, output: Printed | None) -> None:
    """Print a job; exit with 7 if it has failed."""
    if output is not None:
        _emit(job.as_json(), [job.summary.release], output)
    else:
        emit(f"{job.summary.release}  {_sentence(job)}")
        if job.summary.pods:
            rows = [tuple(str(pod.get(key, "-")) for key in ("name", "state", "restarts")) for pod in job.summary.pods]
            emit_table([("POD", "STATE", "RESTARTS"), *rows], gap="  ")
        if job.summary.hint:
            emit(f"hint: {job.summary.hint}")
    if job.has_failed:
        raise typer.Exit(7)


def _emit(answer: Any, names: Sequence[str], form: Printed) -> None:
    if form is Printed.json:
        emit_json(answer)
    elif form is Printed.yaml:
        _emit_yaml([answer])
    else:
        for name in names:
            emit(name)


def _emit_yaml(values: Sequence[Any]) -> None:
    from packager.base.yamlio import dump

    emit_data(dump(values))


def _object_name(manifest: Any) -> str:
    """Return kind and name of a manifest, as kubectl writes them."""
    metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    kind = str(manifest.get("kind")).lower() if isinstance(manifest, dict) else None
    return f"{kind}/{name}"


def _age(created: str, now: datetime) -> str:
    try:
        elapsed = int((now - datetime.fromisoformat(created)).total_seconds())
    except (ValueError, TypeError):
        return "-"
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if elapsed >= size:
            return f"{elapsed // size}{unit}"
    return f"{max(elapsed, 0)}s"

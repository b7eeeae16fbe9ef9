"""`mlpack task`: the client of a task service."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from packager.base.errors import TimedOutError, UsageError
from packager.cli import task_registry
from packager.cli.arguments import Output, content_of
from packager.cli.asking import confirm_deletion, limited
from packager.cli.cluster_arguments import OverlayOption, PackagePath, Yes, seconds
from packager.cli.console import OutputFormat, emit, emit_data, emit_json, emit_log, emit_output, emit_table, say
from packager.cli.task_arguments import ServerOptions, emit_yaml, with_server

if TYPE_CHECKING:
    from packager.base.rest import RestServer
    from packager.tasks.jobs import TaskJob


class Storage(StrEnum):
    """Whether the claims of a deleted job are kept or deleted."""

    keep = "keep"
    delete = "delete"


Release = Annotated[str, typer.Argument(metavar="JOB", help="A job, by its release.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")]


def register(app: typer.Typer) -> None:
    """Add the verbs to `app`."""
    group = typer.Typer(help="Create and follow the jobs of a task service.", no_args_is_help=True)
    task_registry.add_to(group)
    for verb in (create, status, logs, cancel, rerun, delete, export):
        group.command()(verb)
    group.command(name="list")(list_jobs)
    app.add_typer(group, name="task")


@with_server
def create(
    at: ServerOptions,
    ctx: typer.Context,
    definition: Annotated[
        str | None, typer.Argument(metavar="DEFINITION", help="The definition, unless `taskDef` is among the values.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="The values, YAML or JSON; - for stdin.")
    ] = None,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="PATH=VALUE", help="Set a value: process.train.number=5. Repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Its project.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Create nothing; print the manifests.")] = False,
    wait: Wait = False,
    key: Annotated[
        str | None,
        typer.Option("--idempotency-key", metavar="KEY", help="The same key and values make one job."),
    ] = None,
    output: Output = None,
) -> None:
    """Create a job from a definition and filled values.

    With --wait, exit code 0 when it has succeeded, 7 when it has failed or was deleted, 8 after --timeout.
    """
    from packager.base.yamlio import MAX_BYTES
    from packager.cli.host import host
    from packager.tasks import jobs as use_case

    if dry_run and wait:
        raise UsageError("--dry-run and --wait cannot be combined")
    if definition is None and file is None and not settings:
        raise UsageError("a definition is missing", hint="mlpack task definitions lists them")
    filled = use_case.filled_values(definition, content_of(file, MAX_BYTES) if file else None, settings, project)
    with at.connected("1m" if wait else None) as to:
        if dry_run:
            preview = use_case.preview(to, filled)
            for warning in preview["warnings"]:
                say(f"warning: {warning}")
            if output is OutputFormat.name:
                for manifest in preview["manifests"]:
                    emit(_object_name(manifest))
            elif output is OutputFormat.json:
                emit_json(preview, is_bounded=False)
            else:
                emit_yaml(preview["manifests"])
            return
        job = use_case.create(to, filled, host(ctx).runner, key)
    if wait:
        say(f"{job.release} created")
        _wait(ctx, to, job.release, at.timeout, output)
    else:
        _created(job, output)


@with_server
def list_jobs(
    at: ServerOptions,
    status: Annotated[str | None, typer.Option(help="Those with this status.")] = None,
    definition: Annotated[str | None, typer.Option(help="Those of this definition.")] = None,
    creator: Annotated[str | None, typer.Option(help="Those of this person.")] = None,
    application: Annotated[str | None, typer.Option(help="Those of this application.")] = None,
    project: Annotated[str | None, typer.Option(help="Those of this project.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Created then or later: 2026-11-22T10:00 (UTC), or 12h (before now)."),
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Created before.")] = None,
    part: Annotated[str | None, typer.Option("--query", metavar="TEXT", help="With this in the name.")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="How many at most; 0 for all.")] = 50,
    output: Output = None,
) -> None:
    """List jobs, the newest first."""
    from packager.tasks.jobs import jobs as ask_jobs

    filters = {"definition": definition, "creator": creator, "application": application, "project": project}
    with at.connected() as to:
        jobs, are_all = ask_jobs(to, limit, status=status, **filters, since=since, until=until, q=part)
    if output is not None:
        emit_output([job.answer for job in jobs], [job.release for job in jobs], output, is_bounded=False)
    elif jobs:
        now = datetime.now(UTC)
        rows = [("JOB", "STATUS", "REASON", "DEFINITION", "CREATOR", "AGE")]
        for job in jobs:
            name = str(job.definition.get("name") or "-")
            rows.append((job.release, job.status, job.reason or "-", name, job.creator or "-", _age(job.created, now)))
        emit_table(rows, gap="  ")
    else:
        say("no jobs")
    if not are_all:
        say(f"there are more than {limit}: --limit 0 lists all")


@with_server
def status(
    at: ServerOptions,
    ctx: typer.Context,
    release: Release,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Print each change until it has ended.")] = False,
    wait: Wait = False,
    output: Output = None,
) -> None:
    """Show the state of a job, and the reasons.

    Exit code 0 while all is well and after success, 7 when it has failed or was deleted, 8 after --timeout.
    """
    from packager.tasks.jobs import job as ask_job

    if watch or wait:
        with at.connected("0") as to:
            _wait(ctx, to, release, at.timeout, output, is_quiet=not watch)
        return
    with at.connected() as to:
        job = ask_job(to, release)
    _show(job, output)


@with_server
def logs(
    at: ServerOptions,
    ctx: typer.Context,
    release: Release,
    pod: Annotated[str | None, typer.Option(help="One pod; by default all.")] = None,
    container: Annotated[str | None, typer.Option("-c", "--container", help="One container of it.")] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", min=0, max=1_000_000, help="The last lines alone.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Since then alone: 10m, 2h or 3d ago, or 2026-11-22T10:00:00Z.")
    ] = None,
    previous: Annotated[
        bool, typer.Option("-p", "--previous", help="What a container wrote before its last restart.")
    ] = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until it has ended.")] = False,
) -> None:
    """Print the log of a job; that of several pods with their names. It is kept when the pods are deleted."""
    from packager.cli.host import host
    from packager.tasks.jobs import log

    part = {
        "pod": pod,
        "container": container,
        "tail": tail,
        "since": since,
        "previous": "true" if previous else None,
        "timestamps": "true" if timestamps else None,
    }
    with at.connected(at.timeout or "0") as to:
        for text in log(to, release, host(ctx).runner, say, is_following=follow, **part):
            emit_log(text)


@with_server
def cancel(
    at: ServerOptions,
    release: Release,
    output: Output = None,
) -> None:
    """Stop a job. Its record and its claims stay."""
    from packager.tasks.jobs import cancel as ask_cancel

    with at.connected() as to:
        job = ask_cancel(to, release)
    if output is None:
        say(f"{job.release} is being stopped")
    else:
        emit_output(job.answer, [job.release], output, is_bounded=False)


@with_server
def rerun(
    at: ServerOptions,
    ctx: typer.Context,
    release: Release,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="With the revisions of template and definition of then.")
    ] = False,
    wait: Wait = False,
    output: Output = None,
) -> None:
    """Create a job with the values of another one."""
    from packager.cli.host import host
    from packager.tasks.jobs import rerun as ask_rerun

    with at.connected("1m" if wait else None) as to:
        job = ask_rerun(to, release, host(ctx).runner, is_pinned=pinned)
    if wait:
        say(f"{job.release} created")
        _wait(ctx, to, job.release, at.timeout, output)
    else:
        _created(job, output)


@with_server
def delete(
    at: ServerOptions,
    release: Release,
    storage: Annotated[Storage, typer.Option(help="Whether its claims, which hold results, stay.")] = Storage.keep,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; print what would be deleted.")] = False,
    yes: Yes = False,
    output: Output = None,
) -> None:
    """Stop a job, and delete its objects and its record; its claims only with --storage delete."""
    from packager.tasks.jobs import delete as ask_delete
    from packager.tasks.jobs import job as ask_job

    what = f"{release}{' and its claims, with all results' if storage is Storage.delete else ''}"
    if not (yes or dry_run):
        confirm_deletion(f"Delete {what}?")
    with at.connected() as to:
        if dry_run:
            job = ask_job(to, release)
            emit_output(job.answer, [release], output or OutputFormat.name, is_bounded=False)
            say("dry run: nothing was deleted")
            return
        ask_delete(to, release, with_storage=storage is Storage.delete)
    if output is not None:
        emit_output({"deleted": release, "storage": storage.value}, [release], output)
    say(f"{what} is being deleted")


def export(
    ctx: typer.Context,
    package: PackagePath,
    overlay: OverlayOption = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of both; by default that of the package.")] = None,
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where to write the files.")] = Path(),
    kubectl: Annotated[
        str, typer.Option(metavar="PATH", envvar="KUBECTL", help="The kubectl that renders.")
    ] = "kubectl",
    output: Output = None,
) -> None:
    """Write a template and a definition, with which a task service runs an overlay of a package.

    The keys of mlops.env become values that users fill in, with their comments and defaults; secrets become values that
    no view shows. What decides more than a variable, such as the image, is fixed in the definition.
    """
    from packager.cli.host import host
    from packager.tasks import export as task_export

    template, definition = task_export.export(package, overlay, name, kubectl, host(ctx).runner)
    files = [str(path) for path in task_export.write(folder, template, definition)]
    if output is None:
        for kind, path in zip(("templates", "definitions"), files, strict=True):
            emit(path)
            say(f"register it with: mlpack task {kind} apply -f {path}")
    else:
        emit_output({"template": files[0], "definition": files[1]}, files, output)


def _created(job: TaskJob, output: OutputFormat | None) -> None:
    if output is None:
        emit_data(job.release)
        say(f"created; follow it with: mlpack task logs -f {job.release}")
    else:
        emit_output(job.answer, [job.release], output, is_bounded=False)


def _wait(
    ctx: typer.Context,
    to: RestServer,
    release: str,
    timeout: str | None,
    output: OutputFormat | None,
    *,
    is_quiet: bool = False,
) -> None:
    """Follow a job to its end, and print it."""
    from packager.cli.host import host
    from packager.tasks.jobs import follow

    runner = host(ctx).runner
    begin = runner.clock()
    limit = (seconds(timeout) or None) if timeout is not None else None
    with limited(limit, TimedOutError(f"{release} has not ended after {timeout}")):
        for job in follow(to, release, runner, limit):
            if not is_quiet and not job.has_ended:
                elapsed = int(runner.clock() - begin)
                say(f"{elapsed // 60:02}:{elapsed % 60:02}  {_sentence(job)}")
    _show(job, output)


def _sentence(job: TaskJob) -> str:
    """Return status, reason and message on one line."""
    reason = f" ({job.reason})" if job.reason else ""
    message = f": {job.message}" if job.message else ""
    return f"{job.status}{reason}{message}"


def _show(job: TaskJob, output: OutputFormat | None) -> None:
    """Print a job; exit with 7 if it has failed."""
    if output is not None:
        emit_output(job.answer, [job.release], output, is_bounded=False)
    else:
        emit(f"{job.release}  {_sentence(job)}")
        if job.pods:
            rows = [tuple(str(pod.get(key, "-")) for key in ("name", "state", "restarts")) for pod in job.pods]
            emit_table([("POD", "STATE", "RESTARTS"), *rows], gap="  ")
        if job.hint:
            emit(f"hint: {job.hint}")
    if job.has_failed:
        raise typer.Exit(7)


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

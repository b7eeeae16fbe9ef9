"""`mlpack task`: the client of a task service."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from packager.base.errors import TimedOutError, UsageError
from packager.base.rest import RestServer
from packager.base.yamlio import MAX_BYTES, dump
from packager.cli.arguments import OverlayOption, PackagePath, Program, Yes, content_of
from packager.cli.asking import confirm_deletion, limited
from packager.cli.cluster_arguments import seconds
from packager.cli.commands import group
from packager.cli.console import Form, Output, emit, emit_data, emit_json, emit_log, emit_output, say, table
from packager.cli.host import host
from packager.cli.task_registry import DEFINITIONS, TEMPLATES, ServerOptions, schema
from packager.tasks import export as task_export
from packager.tasks import jobs as use_case
from packager.tasks.jobs import TaskJob

Release = Annotated[str, typer.Argument(metavar="JOB", help="A job, by its release.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")]


def create(
    at: ServerOptions,
    definition: Annotated[
        str | None, typer.Argument(metavar="DEFINITION", help="The definition, unless `taskDef` is among the values.")
    ] = None,
    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="The values, YAML or JSON; - for stdin.")
    ] = None,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="PATH=VALUE", help="Set a value: process.train.number=5. Repeatable.")
    ] = [],
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
    if dry_run and wait:
        raise UsageError("--dry-run and --wait cannot be combined")
    if definition is None and file is None and not settings:
        raise UsageError("a definition is missing", hint="mlpack task definitions lists them")
    filled = use_case.filled_values(definition, content_of(file, MAX_BYTES) if file else None, settings, project)
    with at.connected("1m" if wait else None) as to:
        if dry_run:
            _print_preview(use_case.preview(to, filled), output)
            return
        job = use_case.create(to, filled, host().runner, key)
    _created(at, to, job, output, wait=wait)


def _print_preview(preview: dict[str, Any], output: Form | None) -> None:
    say(*(f"warning: {warning}" for warning in preview["warnings"]))
    if output == "json":
        emit_json(preview, is_bounded=False)
    elif output == "name":
        emit(*(_object_name(manifest) for manifest in preview["manifests"]))
    else:
        emit_data(dump(preview["manifests"]))


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
    filters = {"definition": definition, "creator": creator, "application": application, "project": project}
    with at.connected() as to:
        jobs, are_all = use_case.jobs(to, limit, status=status, **filters, since=since, until=until, q=part)
    now = datetime.now(UTC)
    rows = [("JOB", "STATUS", "REASON", "DEFINITION", "CREATOR", "AGE")]
    for job in jobs:
        name = str(job.definition.get("name") or "-")
        rows.append((job.release, job.status, job.reason or "-", name, job.creator or "-", _age(job.created, now)))
    answers, names = [job.answer for job in jobs], [job.release for job in jobs]
    emit_output(answers, names, output, table(rows) if jobs else (), is_bounded=False)
    if output is None and not jobs:
        say("no jobs")
    if not are_all:
        say(f"there are more than {limit}: --limit 0 lists all")


def status(
    at: ServerOptions,
    release: Release,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Print each change until it has ended.")] = False,
    wait: Wait = False,
    output: Output = None,
) -> None:
    """Show the state of a job, and the reasons.

    Exit code 0 while all is well and after success, 7 when it has failed or was deleted, 8 after --timeout.
    """
    if watch or wait:
        with at.connected("0") as to:
            _wait(to, release, at.timeout, output, is_quiet=not watch)
        return
    with at.connected() as to:
        job = use_case.job(to, release)
    _show(job, output)


def logs(
    at: ServerOptions,
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
    part = {
        "pod": pod,
        "container": container,
        "tail": tail,
        "since": since,
        "previous": "true" if previous else None,
        "timestamps": "true" if timestamps else None,
    }
    with at.connected(at.timeout or "0") as to:
        for text in use_case.log(to, release, host().runner, say, is_following=follow, **part):
            emit_log(text)


def cancel(at: ServerOptions, release: Release, output: Output = None) -> None:
    """Stop a job. Its record and its claims stay."""
    with at.connected() as to:
        job = use_case.cancel(to, release)
    emit_output(job.answer, [job.release], output, (), is_bounded=False)
    if output is None:
        say(f"{job.release} is being stopped")


def rerun(
    at: ServerOptions,
    release: Release,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="With the revisions of template and definition of then.")
    ] = False,
    wait: Wait = False,
    output: Output = None,
) -> None:
    """Create a job with the values of another one."""
    with at.connected("1m" if wait else None) as to:
        job = use_case.rerun(to, release, host().runner, is_pinned=pinned)
    _created(at, to, job, output, wait=wait)


def delete(
    at: ServerOptions,
    release: Release,
    storage: Annotated[
        Literal["keep", "delete"], typer.Option(help="Whether its claims, which hold results, stay.")
    ] = "keep",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; print what would be deleted.")] = False,
    yes: Yes = False,
    output: Output = None,
) -> None:
    """Stop a job, and delete its objects and its record; its claims only with --storage delete."""
    what = f"{release}{' and its claims, with all results' if storage == 'delete' else ''}"
    if not (yes or dry_run):
        confirm_deletion(f"Delete {what}?")
    with at.connected() as to:
        if dry_run:
            job = use_case.job(to, release)
            emit_output(job.answer, [release], output, is_bounded=False)
            say("dry run: nothing was deleted")
            return
        use_case.delete(to, release, with_storage=storage == "delete")
    emit_output({"deleted": release, "storage": storage}, [release], output, ())
    say(f"{what} is being deleted")


def export(
    package: PackagePath,
    overlay: OverlayOption = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Of both; by default that of the package.")] = None,
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where to write the files.")] = Path(),
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Write a template and a definition, with which a task service runs an overlay of a package.

    The keys of mlops.env become values that users fill in, with their comments and defaults; secrets become values that
    no view shows. What decides more than a variable, such as the image, is fixed in the definition.
    """
    template, definition = task_export.export(package, overlay, name, kubectl, host().runner)
    files = [str(path) for path in task_export.write(folder, template, definition)]
    emit_output({"template": files[0], "definition": files[1]}, files, output)
    if output is None:
        kinds = zip(("templates", "definitions"), files, strict=True)
        say(*(f"register it with: mlpack task {kind} apply -f {path}" for kind, path in kinds))


def _created(at: ServerOptions, to: RestServer, job: TaskJob, output: Form | None, *, wait: bool) -> None:
    """Print a new job, or follow it to its end."""
    release = job.release
    if wait:
        say(f"{release} created")
        _wait(to, release, at.timeout, output)
        return
    emit_output(job.answer, [release], output, is_bounded=False)
    if output is None:
        say(f"created; follow it with: mlpack task logs -f {release}")


def _wait(to: RestServer, release: str, timeout: str | None, output: Form | None, *, is_quiet: bool = False) -> None:
    """Follow a job to its end, and print it."""
    runner = host().runner
    begin = runner.clock()
    limit = (seconds(timeout) or None) if timeout is not None else None
    with limited(limit, TimedOutError(f"{release} has not ended after {timeout}")):
        for job in use_case.follow(to, release, runner, limit):
            if not is_quiet and not job.has_ended:
                elapsed = int(runner.clock() - begin)
                say(f"{elapsed // 60:02}:{elapsed % 60:02}  {_sentence(job)}")
    _show(job, output)


def _sentence(job: TaskJob) -> str:
    """Return status, reason and message on one line."""
    reason = f" ({job.reason})" if job.reason else ""
    message = f": {job.message}" if job.message else ""
    return f"{job.status}{reason}{message}"


def _show(job: TaskJob, output: Form | None) -> None:
    """Print a job; exit with 7 if it has failed."""
    rows = [tuple(str(pod.get(key, "-")) for key in ("name", "state", "restarts")) for pod in job.pods]
    lines = [f"{job.release}  {_sentence(job)}"]
    lines += table([("POD", "STATE", "RESTARTS"), *rows]) if rows else []
    lines += [f"hint: {job.hint}"] if job.hint else []
    emit_output(job.answer, [job.release], output, lines, is_bounded=False)
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


GROUP = group(
    "Create and follow the jobs of a task service.",
    schema=schema,
    create=create,
    status=status,
    logs=logs,
    cancel=cancel,
    rerun=rerun,
    delete=delete,
    export=export,
    list=list_jobs,
)
GROUP.add_typer(TEMPLATES, name="templates")
GROUP.add_typer(DEFINITIONS, name="definitions")

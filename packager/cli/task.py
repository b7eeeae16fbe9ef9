"""`mlpack task`: the client of a task service."""

import os
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from packager.base.errors import UsageError
from packager.base.rest import RestServer, path
from packager.base.rest import server as connect
from packager.base.values import Value
from packager.base.yamlio import MAX_BYTES, dump
from packager.cli.arguments import OverlayOption, PackagePath, Program, Yes, content_of
from packager.cli.asking import confirm_deletion
from packager.cli.cluster_arguments import seconds
from packager.cli.commands import command, group
from packager.cli.console import Form, Output, emit, emit_log, emit_output, say, table
from packager.cli.host import host
from packager.tasks import client
from packager.tasks import export as task_export
from packager.tasks.client import Kind

_MAX_TOKEN_FILE = 16 << 10

Release = Annotated[str, typer.Argument(metavar="JOB", help="A job, by its release.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has ended.")]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="How long to wait for the end of the job; by default without limit."),
]


class ServerOptions(Value, frozen=True):
    """The options that name the server. Without a token file, the token is in the environment."""

    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", envvar="MLPACK_SERVER", help="The address of the server.")
    ] = None
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the token; by default $MLPACK_TOKEN.")
    ] = None
    insecure: Annotated[bool, typer.Option("--insecure", help="Send the token over http to another machine.")] = False

    def client(self) -> RestServer:
        """Return the server, and the token that it gets."""
        if not self.server:
            raise UsageError("a server is missing: --server URL, or MLPACK_SERVER in the environment")
        token = os.environ.get("MLPACK_TOKEN") or None
        if self.token_file is not None:
            token = content_of(str(self.token_file), _MAX_TOKEN_FILE)[0].decode(errors="replace").strip()
        return connect(self.server, token, is_insecure=self.insecure)


def create(
    at: ServerOptions,
    definition: Annotated[
        str | None, typer.Argument(metavar="DEFINITION", help="The definition, unless `taskDef` is among the values.")
    ] = None,
    file: Annotated[str | None, typer.Option("-f", "--file", metavar="FILE", help="The values; - for stdin.")] = None,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="PATH=VALUE", help="Set a value: process.train.number=5. Repeatable.")
    ] = [],
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Its project.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Create nothing; print the manifests.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    key: Annotated[
        str | None, typer.Option("--idempotency-key", metavar="KEY", help="The same key and values make one job.")
    ] = None,
    output: Output = None,
) -> None:
    """Create a job from a definition and filled values.

    With --wait, exit code 0 when it has succeeded, 7 when it has failed or was deleted, 8 after --timeout.
    """
    if dry_run and wait:
        raise UsageError("--dry-run and --wait cannot be combined")
    if definition is None and file is None and not settings:
        raise UsageError("a definition is missing", hint="mlpack task definitions show lists them")
    values, document = client.filled_values(
        definition, content_of(file, MAX_BYTES) if file else None, settings, project
    )
    to = at.client()
    if dry_run:
        _print_preview(client.request(to, "POST", path("v1", "jobs", dry_run="true"), values, document), output)
        return
    job = client.post_once(to, path("v1", "jobs"), host().runner, values, document, key)
    _created(to, job, timeout, output, wait=wait)


def _print_preview(preview: dict[str, Any], output: Form | None) -> None:
    say(*(f"warning: {warning}" for warning in preview["warnings"]))
    names = [f"{manifest['kind'].lower()}/{manifest['metadata']['name']}" for manifest in preview["manifests"]]
    value = {key: preview.get(key) for key in ("release", "manifests", "warnings")}
    text = dump(preview["manifests"]).removesuffix("\n")  # also with `-o yaml`
    emit_output(value, names, None if output == "yaml" else output, text.split("\n"))


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
    jobs, are_all = client.jobs(at.client(), limit, status=status, **filters, since=since, until=until, q=part)
    rows = [("JOB", "STATUS", "REASON", "DEFINITION", "CREATOR", "CREATED")]
    for job in jobs:
        texts = (job["status"], job.get("reason"), job.get("definition", {}).get("name"), job.get("creator"))
        rows.append((job["release"], *(text or "-" for text in texts), job["created"][:16].replace("T", " ")))
    emit_output(jobs, [job["release"] for job in jobs], output, table(rows) if jobs else ())
    if output is None and not jobs:
        say("no jobs")
    if not are_all:
        say(f"there are more than {limit}: --limit 0 lists all")


def status(
    at: ServerOptions,
    release: Release,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Print each change until it has ended.")] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Show the state of a job, and the reasons.

    Exit code 0 while all is well and after success, 7 when it has failed or was deleted, 8 after --timeout.
    """
    to = at.client()
    _show(_end(to, release, timeout, tells=watch) if watch or wait else client.job(to, release), output)


def logs(
    at: ServerOptions,
    release: Release,
    pod: Annotated[str | None, typer.Option(help="One pod; by default all.")] = None,
    container: Annotated[str | None, typer.Option("-c", "--container", help="One container of it.")] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", min=0, max=1_000_000, help="Only the last lines.")] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only lines since then: 10m, 2h or 3d ago, or 2026-11-22T10:00:00Z."),
    ] = None,
    previous: Annotated[bool, typer.Option("-p", "--previous", help="The log before the last restart.")] = False,
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
    for text in client.log(at.client(), release, host().runner, say, is_following=follow, **part):
        emit_log(text)


def cancel(at: ServerOptions, release: Release, output: Output = None) -> None:
    """Stop a job. Its record and its claims stay."""
    job = client.request(at.client(), "POST", path("v1", "jobs", release, "cancel"))
    emit_output(job, [release], output, ())
    if output is None:
        say(f"{release} is being stopped")


def rerun(
    at: ServerOptions,
    release: Release,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="Use the template and definition that the job was made with.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    output: Output = None,
) -> None:
    """Create a job with the values of another one."""
    to = at.client()
    where = path("v1", "jobs", release, "rerun", pinned="true" if pinned else None)
    _created(to, client.post_once(to, where, host().runner), timeout, output, wait=wait)


def delete(
    at: ServerOptions,
    release: Release,
    storage: Annotated[Literal["keep", "delete"], typer.Option(help="Whether its claims with results stay.")] = "keep",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing; print what would be deleted.")] = False,
    yes: Yes = False,
    output: Output = None,
) -> None:
    """Stop a job, and delete its objects and its record; its claims only with --storage delete."""
    what = f"{release}{' and its claims, with all results' if storage == 'delete' else ''}"
    if dry_run:
        emit_output(client.job(at.client(), release), [release], output)
        say("dry run: nothing was deleted")
        return
    if not yes:
        confirm_deletion(f"Delete {what}?")
    client.request(at.client(), "DELETE", path("v1", "jobs", release, storage=storage))
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


def _created(to: RestServer, job: dict[str, Any], timeout: str | None, output: Form | None, *, wait: bool) -> None:
    """Print a new job, or follow it to its end."""
    release = job["release"]
    if wait:
        say(f"{release} created")
        _show(_end(to, release, timeout, tells=True), output)
        return
    emit_output(job, [release], output)
    if output is None:
        say(f"created; follow it with: mlpack task logs -f {release}")


def _end(to: RestServer, release: str, timeout: str | None, *, tells: bool) -> dict[str, Any]:
    """Follow a job to its end, print each change if `tells` is set, and return the job."""
    limit = (seconds(timeout) or None) if timeout is not None else None
    for job in client.follow(to, release, host().runner, limit):
        if tells and not client.has_ended(job):
            say(_sentence(job))
    return job


def _sentence(job: dict[str, Any]) -> str:
    """Return status, reason and message on one line."""
    reason = f" ({job['reason']})" if job.get("reason") else ""
    message = f": {job['message']}" if job.get("message") else ""
    return f"{job['status']}{reason}{message}"


def _show(job: dict[str, Any], output: Form | None) -> None:
    """Print a job; exit with 7 if it has failed."""
    rows = [tuple(str(pod.get(key, "-")) for key in ("name", "state", "restarts")) for pod in job.get("pods", ())]
    lines = [f"{job['release']}  {_sentence(job)}"]
    lines += table([("POD", "STATE", "RESTARTS"), *rows]) if rows else []
    lines += [f"hint: {job['hint']}"] if job.get("hint") else []
    emit_output(job, [job["release"]], output, lines)
    if job["status"] in ("failed", "deleted"):
        raise typer.Exit(7)


def _print_registered(kind: Kind, answer: dict[str, Any], output: Form | None, *, is_one: bool) -> None:
    items: list[dict[str, Any]] = [answer] if is_one else answer.get("items", [])
    columns = {"NAME": "name", "REVISION": "revision", "TEMPLATE": "task_template_name", "DESCRIPTION": "description"}
    if kind == "templates":
        columns.pop("TEMPLATE")
    rows = [[str(item.get(key) or "-").split("\n")[0] for key in columns.values()] for item in items]
    names = [str(item.get("name")) for item in items]
    lines = table([[*columns], *rows]) if rows else ()
    emit_output(answer if is_one else items, names, output or ("yaml" if is_one else None), lines)
    if not items:
        say(f"no {kind}")


def _apply(to: RestServer, kind: Kind, file: str, output: Form | None, *, is_trial: bool) -> None:
    documents = client.registrations(kind, content_of(file, MAX_BYTES))
    names = [str(document.data["name"]) for document in documents]
    answers = []
    for name, document in zip(names, documents, strict=True):
        outcome, answer = client.apply(to, kind, document, is_trial=is_trial)
        answers.append(answer)
        say(*(f"warning: {name}: {warning}" for warning in answer.get("warnings") or ()))
        # a trial of a template names the definitions whose examples would fail
        failing = answer.get("definitions", {}).items() if is_trial else ()
        say(*(f"warning: {user}: {problem}" for user, problems in failing for problem in problems))
        if outcome != "unchanged":
            outcome = f"would be {outcome}" if is_trial else f"{outcome}: revision {answer.get('revision')}"
        if output is None:
            emit(f"{kind.removesuffix('s')}/{name} {outcome}")
    emit_output(answers if len(answers) > 1 else answers[0], names, output, ())


def _registry(kind: Kind, *, shown: str = "", applied: str = "", deleted: str = "") -> typer.Typer:
    """Return the commands for templates or definitions; the texts are added to their help."""
    one = kind.removesuffix("s")

    def show(
        at: ServerOptions,
        name: Annotated[str | None, typer.Argument(metavar="NAME", help=f"One {one}; by default all.")] = None,
        revision: Annotated[int | None, typer.Option(metavar="N", min=1, help="An earlier revision.")] = None,
        output: Output = None,
    ) -> None:
        if revision is not None and name is None:
            raise UsageError(f"--revision needs the name of one of the {kind}")
        steps = [name] if name else []
        steps += ["revisions", str(revision)] if revision else []
        answer = client.request(at.client(), "GET", path("v1", kind, *steps))
        _print_registered(kind, answer, output, is_one=name is not None)

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
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Register nothing; say what would be done.")] = False,
        output: Output = None,
    ) -> None:
        _apply(at.client(), kind, file, output, is_trial=dry_run)

    def delete(
        at: ServerOptions, name: Annotated[str, typer.Argument(metavar="NAME", help=f"The {one}.")], yes: Yes = False
    ) -> None:
        if not yes:
            confirm_deletion(f"Delete {one}/{name}?")
        client.request(at.client(), "DELETE", path("v1", kind, name))
        say(f"{one}/{name} deleted")

    group = typer.Typer(help=f"Show, register and remove task {kind}.", no_args_is_help=True)
    show.__doc__ = f"List the task {kind}, or show one{shown}."
    apply.__doc__ = f"""Register {kind}, or their next revisions where they differ from the registered ones.

    A file has the keys of POST /v1/{kind}, or is what `-o yaml` has printed of a {one}, edited.{applied}
    """
    delete.__doc__ = f"Remove a {one}{deleted}. Jobs that were made with it stay."
    for verb in (show, apply, delete):
        group.command()(command(verb))
    return group


GROUP = group(
    "Create and follow the jobs of a task service.",
    create=create,
    status=status,
    logs=logs,
    cancel=cancel,
    rerun=rerun,
    delete=delete,
    export=export,
    list=list_jobs,
)
GROUP.add_typer(_registry("templates", deleted=" that no definition uses"), name="templates")
GROUP.add_typer(
    _registry(
        "definitions",
        shown=": which values it takes, and an example",
        applied=" Each example\n    is filled in as a trial.",
    ),
    name="definitions",
)

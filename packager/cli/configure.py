"""`mlpack configure`: sets the values that are left to the user, in the package's own files."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import MlpackError, UsageError
from packager.cli import completing
from packager.cli.arguments import FsGroup, GroupId, Output, Site, SiteFile, UserId, announced_site
from packager.cli.cluster_arguments import OnlyOverlay, PackagePath, acceptance
from packager.cli.console import OutputFormat, emit, emit_output, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.problems import Problem
    from packager.configure.configure import Assignment


def configure(
    package: PackagePath,
    overlay: OnlyOverlay = None,
    root: Annotated[
        str | None, typer.Option(metavar="PATH", help="The folder that contains the package, as the pods see it.")
    ] = None,
    registry: Annotated[str | None, typer.Option(metavar="HOST", help="Where the image is pulled from.")] = None,
    uid: UserId = None,
    gid: GroupId = None,
    fs_group: FsGroup = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="How many pods work at the same time: WORKERS, NODES, REPLICAS or PARALLELISM in mlops.env.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="QUANTITY", help="The memory of each pod that computes, reserved and at most: 64Gi."),
    ] = None,
    cpu: Annotated[
        str | None, typer.Option(metavar="QUANTITY", help="The CPUs of each pod that computes: 8, or 500m.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The number of GPUs of each pod that computes.")
    ] = None,
    image: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[:TAG][@sha256:…]",
            help="The image after its registry: IMAGE in the overlays' mlops.env. Without a tag and a digest, the "
            "present ones are kept.",
        ),
    ] = None,
    settings: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a value that mlops.env or site.env has. Repeatable.",
            autocompletion=completing.settings,
        ),
    ] = [],  # noqa: B006 - typer copies it
    additions: Annotated[
        list[str], typer.Option("--add", metavar="KEY=VALUE", help="Add a variable to mlops.env. Repeatable.")
    ] = [],  # noqa: B006
    site: Site = [],  # noqa: B006
    site_file: SiteFile = None,
    storage: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Where all folders are: scratch, host-path, nfs or pvc; or where one is: output-nfs, dataset-pvc, ... "
            "Repeatable.",
            autocompletion=completing.storages,
        ),
    ] = [],  # noqa: B006
    switch_on: Annotated[
        list[str],
        typer.Option(
            "--with",
            metavar="OPTION|DIR",
            help="A site option to switch on, or a folder with a component of your own. Repeatable.",
            autocompletion=completing.options,
        ),
    ] = [],  # noqa: B006
    switch_off: Annotated[
        list[str],
        typer.Option(
            "--without",
            metavar="OPTION",
            help="Switch a site option off. Repeatable.",
            autocompletion=completing.options,
        ),
    ] = [],  # noqa: B006
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Change nothing; list unset values and results that are not kept, with exit code 1 if there are any.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Accept the values that would be proposed on a terminal.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the changes.")] = False,
    destination: Annotated[
        Path | None, typer.Option("--destination", "-d", metavar="FILE", help="The new tarball.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing new tarball.")] = False,
    output: Output = None,
) -> None:
    """Set where a package and its image are and which user runs it; on a terminal, it asks.

    A site's defaults (`mlpack site`) take the place of what was built, and not of what you edited. With them, it asks
    nothing.

    A folder is edited in place; for a tarball, a new one is written. Prints the paths of the written files.
    """
    from packager.base import paths
    from packager.cli import configure_questions
    from packager.configure import configure as use_case

    amounts = {"--workers": workers, "--memory": memory, "--cpu": cpu, "--gpus": gpus}
    answers = use_case.Answers(
        site=None if check else announced_site(site_file),
        root=root,
        registry=registry,
        uid=uid,
        gid=gid,
        fs_group=fs_group,
        amounts=tuple((option, str(value)) for option, value in amounts.items() if value is not None),
        image=image,
        assignments=(
            *(_assignment("--set", text) for text in settings),
            *(_assignment("--add", text) for text in additions),
            *(_assignment("--site", text) for text in site),
        ),
        switch_on=tuple(name for name in switch_on if "/" not in name),
        components=use_case.own_components(tuple(name for name in switch_on if "/" in name)),
        switch_off=tuple(switch_off),
        storage=tuple(storage),
    )
    use_case.check_answers(answers)
    if check:
        _check(use_case.unset(package, overlay, destination=destination), output)
        return
    ask = partial(configure_questions.answers, yes=yes)
    with use_case.prepared(package, overlay, answers, ask=ask, destination=destination) as edits:
        for change in edits.changes:
            before = "" if change.shown_before is None else f"{change.shown_before}  ->  "
            say(f"{edits.package.shown(change.path)}:{change.line}: {before}{change.shown_after}")
        for note in edits.notes:
            say(f"note: {note}")
        written = [] if dry_run else [*use_case.write(edits, destination=destination, force=force, tell=say)]
        if output is not None or not dry_run:
            emit_output({**edits.as_json(), "files": written}, written, output or OutputFormat.name)
        if dry_run:
            return
        if not edits.changed:
            say("nothing to change")
        next_to = Path(package if package.is_dir() else written[-1])
        consent = edits.consent
        accepted = acceptance(consent.allowed, consent.level)
        if accepted:
            say(f"doctor, verify, deploy and run need {shlex.join(accepted)}: the package was sealed without that")
        say(f"next: {shlex.join(['mlpack', 'doctor', paths.argument(next_to), *accepted])}")


def _assignment(option: str, text: str) -> Assignment:
    from packager.configure.configure import Assignment

    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: expected KEY=VALUE")
    return Assignment(option, key, value)


def _check(problems: Sequence[Problem], output: OutputFormat | None) -> None:
    """Print the findings of `--check`, and end with exit code 1 if there are any."""
    if output is not None:
        value = {"problems": [problem.as_json() for problem in problems]}
        emit_output(value, dict.fromkeys(problem.file for problem in problems), output)
    for problem in problems if output is None else ():
        emit(str(problem))
    if problems:
        raise typer.Exit(MlpackError.exit_code)

"""`mlpack configure` and `mlpack options`: set the values that are left to the user, in the package's own files."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from packager.base import paths
from packager.base.errors import UsageError
from packager.base.values import as_plain
from packager.cli.arguments import (
    FsGroup,
    GroupId,
    OnlyOverlay,
    PackagePath,
    RegistryHost,
    Site,
    SiteFile,
    UserId,
    announced_site,
)
from packager.cli.console import Output, emit_output, say, table
from packager.configure import configure as use_case
from packager.configure.additions import options as find_options
from packager.configure.configure import Answers, Assignment


def configure(
    package: PackagePath,
    overlay: OnlyOverlay = None,
    root: Annotated[
        str | None, typer.Option(metavar="PATH", help="The folder that contains the package, as the pods see it.")
    ] = None,
    registry: RegistryHost = None,
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
        typer.Option("--set", metavar="KEY=VALUE", help="Set a value that mlops.env or site.env has. Repeatable."),
    ] = [],
    additions: Annotated[
        list[str], typer.Option("--add", metavar="KEY=VALUE", help="Add a variable to mlops.env. Repeatable.")
    ] = [],
    site: Site = [],
    site_file: SiteFile = None,
    storage: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Where all folders are: scratch, host-path, nfs or pvc; or where one is: output-nfs, dataset-pvc, ... "
            "Repeatable.",
        ),
    ] = [],
    switch_on: Annotated[
        list[str],
        typer.Option(
            "--with",
            metavar="OPTION|DIR",
            help="A site option to switch on, or a folder with a component of your own. Repeatable.",
        ),
    ] = [],
    switch_off: Annotated[
        list[str], typer.Option("--without", metavar="OPTION", help="Switch a site option off. Repeatable.")
    ] = [],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the changes.")] = False,
    destination: Annotated[
        Path | None, typer.Option("--destination", "-d", metavar="FILE", help="The new tarball.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing new tarball.")] = False,
    output: Output = None,
) -> None:
    """Set where a package and its image are, which user runs it, values and options.

    A site's defaults (`mlpack site`) take the place of what was built, and not of what you edited.

    A folder is edited in place; for a tarball, a new one is written. Prints the paths of the written files.
    """
    amounts = {"--workers": workers, "--memory": memory, "--cpu": cpu, "--gpus": gpus}
    assigned = (("--set", settings), ("--add", additions), ("--site", site))
    answers = Answers(
        site=announced_site(site_file),
        root=root,
        registry=registry,
        uid=uid,
        gid=gid,
        fs_group=fs_group,
        amounts=tuple((option, str(value)) for option, value in amounts.items() if value is not None),
        image=image,
        assignments=tuple(_assignment(option, text) for option, texts in assigned for text in texts),
        switch_on=tuple(name for name in switch_on if "/" not in name),
        components=use_case.own_components(tuple(name for name in switch_on if "/" in name)),
        switch_off=tuple(switch_off),
        storage=tuple(storage),
    )
    if answers == Answers():
        raise UsageError("no value was given; nothing was changed", hint="`mlpack configure --help` lists the options")
    use_case.check_answers(answers)
    with use_case.prepared(package, overlay, answers, destination=destination) as edits:
        for change in edits.changes:
            before = "" if change.shown_before is None else f"{change.shown_before}  ->  "
            say(f"{edits.package.shown(change.path)}:{change.line}: {before}{change.shown_after}")
        say(*(f"note: {note}" for note in edits.notes))
        written = [] if dry_run else [*use_case.write(edits, destination=destination, force=force)]
        emit_output({**edits.as_json(), "files": written}, written, output)
        if dry_run:
            return
        if not edits.changed:
            say("nothing to change")
        next_to = Path(package if package.is_dir() else written[-1])
        say(f"next: {shlex.join(['mlpack', 'doctor', paths.argument(next_to)])}")


def _assignment(option: str, text: str) -> Assignment:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: expected KEY=VALUE")
    return Assignment(option, key, value)


def options(package: PackagePath, output: Output = None) -> None:
    """List the options that fit a package: where each is on, what it reads, and the Pod Security level with it."""
    found = find_options(package)
    rows = [("OPTION", "IN THE PACKAGE", "READS IN site.env", "POD SECURITY", "WHAT IT DOES")]
    for option in found.options:
        state = f"on: {', '.join(option.on)}" if option.on else "off" if option.in_package else "-"
        rows.append((option.name, state, ", ".join(option.keys) or "-", option.pod_security, option.summary))
    names = [option.name for option in found.options]
    emit_output(as_plain(found), names, output, table(rows, gap="   "))
    if output is None and any(not option.in_package for option in found.options):
        say("`mlpack configure PACKAGE --with OPTION` adds an option to the package and switches it on")

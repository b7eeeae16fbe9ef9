"""`mlpack configure` and `mlpack options`: set the values that are left to the user, in the package's own files."""

import os
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from packager.base import paths
from packager.base.errors import MlpackError, UnansweredError, UsageError, VerificationError
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
    acceptance,
    announced_site,
)
from packager.cli.asking import ask, has_terminal
from packager.cli.console import Output, emit_output, say, table
from packager.configure import configure as use_case
from packager.configure.additions import options as find_options
from packager.configure.configure import Answers, Assignment
from packager.configure.proposals import parse_id, parse_registry, parse_root, proposal

if TYPE_CHECKING:
    from packager.package.opened import Package

T = TypeVar("T")

_TRIES = 5


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
    amounts = {"--workers": workers, "--memory": memory, "--cpu": cpu, "--gpus": gpus}
    assigned = (("--set", settings), ("--add", additions), ("--site", site))
    answers = Answers(
        site=None if check else announced_site(site_file),
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
    use_case.check_answers(answers)
    if check:
        problems = use_case.unset(package, overlay, destination=destination)
        value = {"problems": [problem.as_json() for problem in problems]}
        emit_output(value, dict.fromkeys(problem.file for problem in problems), output, map(str, problems))
        if problems:
            raise typer.Exit(MlpackError.exit_code)
        return
    questions = partial(_answers, yes=yes)
    with use_case.prepared(package, overlay, answers, ask=questions, destination=destination) as edits:
        for change in edits.changes:
            before = "" if change.shown_before is None else f"{change.shown_before}  ->  "
            say(f"{edits.package.shown(change.path)}:{change.line}: {before}{change.shown_after}")
        say(*(f"note: {note}" for note in edits.notes))
        written = [] if dry_run else [*use_case.write(edits, destination=destination, force=force, tell=say)]
        emit_output({**edits.as_json(), "files": written}, written, output)
        if dry_run:
            return
        if not edits.changed:
            say("nothing to change")
        next_to = Path(package if package.is_dir() else written[-1])
        accepted = acceptance(edits.consent.allowed, edits.consent.level)
        if accepted:
            say(f"doctor, verify, deploy and run need {shlex.join(accepted)}: the package was sealed without that")
        say(f"next: {shlex.join(['mlpack', 'doctor', paths.argument(next_to), *accepted])}")


def _assignment(option: str, text: str) -> Assignment:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: expected KEY=VALUE")
    return Assignment(option, key, value)


def _answers(package: "Package", overlays: tuple[str, ...], *, yes: bool) -> Answers:
    """Return the user's answers; with `yes`, the proposed values."""
    if not yes and not has_terminal():
        raise UnansweredError(
            "nothing was changed: there is no terminal to ask on",
            hint="set the values with --root, --registry, --uid and --gid; -y accepts the proposed ones",
        )
    proposed = proposal(package, overlays, uid=os.getuid(), gid=os.getgid())
    if yes and proposed.problems:
        message = f"{package.source} contains invalid values; nothing was changed"
        raise VerificationError(message, problems=proposed.problems)
    if yes:
        return proposed.answers
    say(f"{package.name}. Press Enter to accept the value in brackets.")
    say(*map(str, proposed.problems))
    usual = proposed.answers
    root, registry = _ask_until_valid(lambda: _ask_root_and_registry(usual))
    uid = _ask_until_valid(lambda: parse_id(ask("User id", str(usual.uid))))
    gid = _ask_until_valid(lambda: parse_id(ask("Group id", str(usual.gid))))
    group = gid if usual.fs_group == usual.gid else usual.fs_group
    fs_group = _ask_until_valid(lambda: parse_id(ask("Group id of its volumes", str(group))))
    return Answers(root=root, registry=registry, uid=uid, gid=gid, fs_group=fs_group)


def _ask_until_valid(question: Callable[[], T]) -> T:
    """Ask until the answer is valid, a limited number of times."""
    for _ in range(_TRIES):
        try:
            return question()
        except UsageError as error:
            say(str(error))
    raise UsageError(f"no valid answer in {_TRIES} attempts; nothing was changed")


def _ask_root_and_registry(proposed: Answers) -> tuple[str, str]:
    root = ask("Folder that contains the package, as the nodes see it", str(proposed.root))
    registry = ask("Registry that the image is pulled from", str(proposed.registry))
    return parse_root(root), parse_registry(registry)


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

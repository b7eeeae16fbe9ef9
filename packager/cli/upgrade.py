"""`mlpack upgrade` and `mlpack overlay`: keep the edits in a newer build, and write an overlay outside of a package."""

from pathlib import Path
from typing import Annotated

import typer

from packager.cli.arguments import PodSecurity, Program, Theirs, Yours
from packager.cli.console import Form, Output, emit_data, emit_output, say
from packager.cli.host import host
from packager.cli.registry_arguments import SignatureOptions, local_package
from packager.configure import upgrade as use_case
from packager.configure.overlay import Choice, write
from packager.configure.upgrade import PreparedUpgrade
from packager.verify.command import level


def upgrade(
    signatures: SignatureOptions,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a package, with its edits.")],
    newer: Annotated[
        Path,
        typer.Argument(metavar="NEW", help="A newer build: its tarball, its folder, or oci://HOST/REPOSITORY:TAG."),
    ],
    yours: Yours = [],
    theirs: Theirs = [],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the result.")] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not render and verify the result before it is written.")
    ] = False,
    pod_security: PodSecurity = None,
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Upgrade a package's folder to a newer build and keep the edits; all files change, or none.

    Values, options and ids are set in the new files; other edits are merged line by line. Where both changed the same
    place, it names the file and the line, changes nothing and ends with 9. A new package that needs a weaker Pod
    Security level than the present one needs --pod-security LEVEL. Prints the paths of changed files.
    """
    newer = local_package(newer, signatures.trust())

    def verify(prepared: PreparedUpgrade, result: Path) -> None:
        if not no_verify:
            for fact in use_case.check(prepared, result, kubectl, host().runner, level(pod_security)):
                say(f"new: {fact}")

    with use_case.prepared(folder, newer, yours=yours, theirs=theirs) as prepared:
        _show(prepared, output)
        if prepared.conflicts:
            raise prepared.error
        if not prepared.is_done:
            changed = use_case.write(prepared, verify, dry_run=dry_run)
            for path in changed if output is None else ():
                emit_data(path)


def _show(prepared: PreparedUpgrade, output: Form | None) -> None:
    if output is not None:
        emit_output(prepared.as_json(), [file.path for file in prepared.files], output)
        return
    if prepared.is_done:
        say(f"{prepared.old.name}: nothing to do, {prepared.new.source} is the same build")
        return
    say(prepared.title)
    for file in sorted(prepared.files, key=lambda file: file.path in prepared.unexpected):
        deleted = " (you deleted it)" if file.action == "kept" and file.mode is None else ""
        unexpected = " (not meant to be edited)" if file.path in prepared.unexpected else ""
        say(f"{file.action:8} {file.path}{deleted}{unexpected}")
    say(*(f"decided: {problem}" for problem in prepared.problems(prepared.decided)))
    say(*(f"new value: {name}" for name in prepared.new_keys))
    say(*(f"new option: {name}" for name in prepared.new_options))


def overlay(
    package: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a package.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="The folder that contains the overlays.")],
    name: Annotated[str | None, typer.Option("--overlay", metavar="NAME", help="The overlay; by default all.")] = None,
    yours: Yours = [],
    theirs: Theirs = [],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the result.")] = False,
    output: Output = None,
) -> None:
    """Write an overlay of your own outside of a package, and print its folder: DIR/NAME for each overlay.

    `kubectl apply -k DIR/NAME` applies it, and all other commands take DIR/NAME in place of a package. The package's
    folder is not edited. For a newer build, replace that folder and run the same command again: your edits are carried
    over, and new values are named. Exit code 9 where both changed the same place: then nothing is written.
    """
    choices = {Path(file): Choice.yours for file in yours} | {Path(file): Choice.theirs for file in theirs}
    written = write(package, to, name, choices, dry_run=dry_run)
    if output is not None:
        emit_output([one.as_json() for one in written], [one.folder for one in written], output)
        return
    for one in written:
        emit_data(str(one.folder))
        say(*(f"new value: {key}" for key in one.new_keys))

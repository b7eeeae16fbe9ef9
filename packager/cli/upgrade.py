"""`mlpack upgrade`: replaces a package's folder by a newer build, and keeps the edits."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base import workfolder
from packager.base.errors import MlpackError, ToolError, UnansweredError, UsageError
from packager.cli.arguments import Output, cache_folder
from packager.cli.asking import ask, has_terminal
from packager.cli.cluster_arguments import PodSecurity, Program  # noqa: TC001 - typer reads the annotations
from packager.cli.console import OutputFormat, emit_data, emit_output, say
from packager.cli.host import host
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.app.upgrade import Choice, Conflict, OwnText, PreparedUpgrade
    from packager.base.problems import Problem
    from packager.base.runner import Runner


_MARKS = ("<<<<<<< yours", "||||||| the package had", "=======", ">>>>>>> the new package has")


@with_signatures
def upgrade(
    ctx: typer.Context,
    signatures: SignatureOptions,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a package, with its edits.")],
    newer: Annotated[
        Path | None,
        typer.Argument(
            metavar="NEW", help="A newer build of the package: its tarball, its folder, or oci://HOST/REPOSITORY:TAG."
        ),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="OLD",
            help="The package that FOLDER was unpacked from, to merge files that are not meant to be edited; "
            "by default one beside FOLDER, or a pulled one.",
        ),
    ] = None,
    yours: Annotated[
        list[str],
        typer.Option(metavar="FILE", help="Keep your version where this file conflicts. Repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    theirs: Annotated[
        list[str],
        typer.Option(metavar="FILE", help="Take the new version where this file conflicts. Repeatable."),
    ] = [],  # noqa: B006
    mark: Annotated[
        bool, typer.Option("--mark", help="Write both versions of a conflict into the file; exit code 9.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show the result.")] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not render and verify the result before it is written.")
    ] = False,
    pod_security: PodSecurity = None,
    resume: Annotated[bool, typer.Option("--continue", help="Complete an upgrade that was interrupted.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Undo an upgrade that was interrupted.")] = False,
    kubectl: Program = "kubectl",
    output: Output = None,
) -> None:
    """Upgrade a package's folder to a newer build and keep the edits; all files change, or none.

    Values, options and ids are set in the new files; other edits are merged line by line. Where both changed the same
    place, it asks on a terminal; without one, it changes nothing and ends with 9. A new package that needs a weaker Pod
    Security level than the present one needs --pod-security LEVEL. Prints the paths of changed files.
    """
    from packager.app import upgrade as use_case
    from packager.app.verify import level
    from packager.cli.registry_arguments import local_package

    if resume or abort:
        if newer is not None or (resume and abort):
            raise UsageError("--continue and --abort take a FOLDER alone")
        (use_case.undo if abort else use_case.complete)(folder)
        emit_data(str(folder))
        return
    if newer is None:
        raise UsageError("no NEW package given", hint=f"mlpack upgrade {folder} NEW.tar.gz")
    newer = local_package(ctx, newer, signatures.trust())
    base = base and local_package(ctx, base)
    asks = has_terminal() and not (mark or dry_run or output)
    question = partial(_question, host(ctx).runner)
    decisions = use_case.Decisions(tuple(yours), tuple(theirs), question if asks else lambda *_: None)
    with use_case.prepared(folder, newer, decisions, base=base, archives=_pulled) as prepared:
        _show(prepared, output)
        if not (no_verify or prepared.conflicts or prepared.is_done):
            for fact in use_case.check(prepared, kubectl, host(ctx).runner, level(pod_security)):
                say(f"new: {fact}")
        if prepared.conflicts and (dry_run or not mark):
            raise prepared.error
        if not (dry_run or prepared.is_done):
            _write(prepared, output)


def _write(prepared: PreparedUpgrade, output: OutputFormat | None) -> None:
    """Write the upgrade, and end with 9 if it has marks."""
    from packager.app import upgrade as use_case

    for path in use_case.write(prepared):
        if output is None:
            emit_data(path)
    for problem in prepared.conflicts:
        say(str(problem))
    if prepared.conflicts:
        say("decide each place that is marked, then run `mlpack verify`")
        raise typer.Exit(UnansweredError.exit_code)


def _show(prepared: PreparedUpgrade, output: OutputFormat | None) -> None:
    if output is not None:
        emit_output(prepared.as_json(), [file.path for file in prepared.plan.files], output, is_bounded=False)
        return
    if prepared.is_done:
        say(f"{prepared.old.name}: nothing to do, {prepared.new.source} is the same build")
        return
    say(prepared.title)
    if prepared.base is not None:
        say(f"delivered files are read from {prepared.base}")
    for file in sorted(prepared.plan.files, key=lambda file: file.path in prepared.unexpected):
        source = f" (edits from {file.moved_from})" if file.moved_from else ""
        deleted = " (you deleted it)" if file.action == "kept" and file.mode is None else ""
        unexpected = " (not meant to be edited)" if file.path in prepared.unexpected else ""
        say(f"{file.action:8} {file.path}{source}{deleted}{unexpected}")
    for problem in prepared.decided:
        say(f"decided: {problem}")
    for name in prepared.plan.new_keys:
        say(f"new value: {name}")
    for name in prepared.plan.new_options:
        say(f"new option: {name}")


def _pulled() -> Iterable[Path]:
    """Return the archives in the cache of pulled packages."""
    from packager.publish.pull import pulled

    return pulled(cache_folder())


def _question(runner: Runner, place: Problem, conflict: Conflict) -> Choice | OwnText:
    """Ask which version of a conflict to take.

    Raises:
        MlpackError: The user quits, or the input has ended.
    """
    from packager.app.upgrade import Choice, OwnText

    say(str(place))
    edit = "edit, " if conflict.line else ""
    while True:
        answer = ask(f"Keep yours, take theirs, {edit}or quit?", "quit").lower()
        if answer in ("q", "quit"):
            raise MlpackError("nothing was changed")
        for choice in Choice:
            if answer in (choice, choice[0]):
                return choice
        if edit and answer in ("e", "edit") and (text := _edited(runner, conflict)) is not None:
            return OwnText(text)


def _edited(runner: Runner, conflict: Conflict) -> str | None:
    """Return the text that the user writes in an editor; None if it still has marks.

    Raises:
        ToolError: The editor cannot be started, or the text cannot be read.
    """
    texts = [(text or "").rstrip("\n") for text in (conflict.yours, conflict.base, conflict.theirs)]
    lines = [line for pair in zip(_MARKS, (*texts, ""), strict=True) for line in pair if line]
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with workfolder.temporary() as folder:
        file = folder / Path(conflict.path).name
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if code := runner.run_in_terminal([*editor, str(file)], stdout_to_stderr=True):
            say(f"{editor[0]} has ended with exit code {code}")
            return None
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError(f"the edited text cannot be read: {error}") from None
    if any(line.startswith(_MARKS) for line in text.splitlines()):
        say("the text still has a mark: decide between the versions, and delete the marks")
        return None
    return text

"""`mlpack diff`: shows what was edited in a package since it was built."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.cluster_arguments import PackageToRead  # noqa: TC001 - typer reads the annotations
from packager.cli.console import OutputFormat, emit, emit_log, emit_output, say
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from packager.configure.diff import PackageEdits


class DiffFormat(StrEnum):
    """The forms in which edits are printed."""

    text = "text"
    json = "json"
    yaml = "yaml"
    name = "name"
    patch = "patch"


@with_signatures
def diff(
    ctx: typer.Context,
    signatures: SignatureOptions,
    package: PackageToRead,
    output: Annotated[
        DiffFormat,
        typer.Option(
            "-o",
            "--output",
            help="For people; as JSON or YAML; the names of edited files; or a patch for the package as it was built.",
        ),
    ] = DiffFormat.text,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 1 if there are edits, and with 0 if there are none.")
    ] = False,
) -> None:
    """Show the edits of a package: values, options and ids with old and new, other changes as a patch.

    Values that may be secret are masked, except in `-o patch`, which `git apply` and `patch -p1` accept.
    """
    from packager.cli.registry_arguments import local_package
    from packager.configure.diff import diff as find_edits

    difference = find_edits(local_package(ctx, package, signatures.trust()))
    if output in (DiffFormat.json, DiffFormat.yaml, DiffFormat.name):
        files = dict.fromkeys((*(edit.path for edit in difference.edits), *difference.not_in_patch))
        emit_output(difference.as_json(), files, OutputFormat(output), is_bounded=False)
    elif output is DiffFormat.patch:
        if difference.patch:
            emit_log(difference.patch)
    else:
        _show(difference)
    for path, reason in difference.not_in_patch.items():
        say(f"not in the patch: {path}: {reason}")
    if exit_code and not difference.is_empty:
        raise typer.Exit(1)


def _show(difference: PackageEdits) -> None:
    last = None
    for edit in difference.edits:
        if edit.path != last:
            emit(f"{edit.path}:")
        last = edit.path
        emit(f"  {edit}")
    for line in difference.others.decode(errors="surrogateescape").split("\n")[:-1]:
        emit(line)
    if difference.is_empty:
        say(f"{difference.package} has no edits")

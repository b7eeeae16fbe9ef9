"""`mlpack diff`: shows what was edited in a package since it was built."""

from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from packager.cli.arguments import PackageToRead
from packager.cli.console import emit_log, emit_output, say
from packager.cli.registry_arguments import SignatureOptions, local_package
from packager.configure.diff import PackageEdits
from packager.configure.diff import diff as find_edits


def diff(
    signatures: SignatureOptions,
    package: PackageToRead,
    output: Annotated[
        Literal["text", "json", "yaml", "name", "patch"],
        typer.Option(
            "-o",
            "--output",
            help="For people; as JSON or YAML; the names of edited files; or a patch for the package as it was built.",
        ),
    ] = "text",
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="End with 1 if there are edits, and with 0 if there are none.")
    ] = False,
) -> None:
    """Show the edits of a package: values, options and ids with old and new, other changes as a patch.

    Values that may be secret are masked, except in `-o patch`, which `git apply` and `patch -p1` accept.
    """
    difference = find_edits(local_package(package, signatures.trust()))
    if output == "patch":
        if difference.patch:
            emit_log(difference.patch)
    else:
        files = dict.fromkeys((*(edit.path for edit in difference.edits), *difference.not_in_patch))
        form = None if output == "text" else output
        emit_output(difference.as_json(), files, form, _lines(difference))
        if difference.is_empty and form is None:
            say(f"{difference.package} has no edits")
    say(*(f"not in the patch: {path}: {reason}" for path, reason in difference.not_in_patch.items()))
    if exit_code and not difference.is_empty:
        raise typer.Exit(1)


def _lines(difference: PackageEdits) -> Iterator[str]:
    last = None
    for edit in difference.edits:
        if edit.path != last:
            yield f"{edit.path}:"
        last = edit.path
        yield f"  {edit}"
    yield from difference.others.decode(errors="surrogateescape").split("\n")[:-1]

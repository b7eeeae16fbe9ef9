"""`mlpack results`: copies OUTPUT_DIR of a deployed package into a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.arguments import Output  # noqa: TC001 - typer reads the annotations
from packager.cli.cluster_arguments import (
    ClusterOptions,
    OneWorkload,
    OverlayOption,
    PackageToRead,
    Worker,
    open_target,
    seconds,
    with_cluster,
)
from packager.cli.console import OutputFormat, emit_output, say
from packager.cli.printing import print_results

if TYPE_CHECKING:
    from packager.cluster.results import Results

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder to copy to; created when missing.")]


@with_cluster
def results(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackageToRead,
    folder: Folder,
    overlay: OverlayOption = None,
    workload: OneWorkload = None,
    worker: Worker = None,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait without receiving data; 0 for no limit.")
    ] = "1m",
    output: Output = None,
) -> None:
    """Copy OUTPUT_DIR to a local folder, during the run or after it; with several workers, from worker 0.

    Of a Job with an index for each pod, each running index has a folder of its number. Files of the same name are
    replaced, and nothing is removed; what has arrived before, by its digest, is not read again. Exit code 7 when a file
    could not be read or changed during the copy; 8 after --timeout.
    """
    from packager.cluster.results import ResultsCopy

    patience = seconds(timeout)
    to_cluster = at.client(ctx)
    with open_target(ctx, package, overlay, to_cluster, workload) as target:
        copy, has_copied = ResultsCopy(target, folder, patience, say), False
        for answer in copy.by_index() if worker is None else ():
            _print(answer, output)
            has_copied = True
        if not has_copied:
            with copy.of_worker(worker) as answer:
                _print(answer, output)


def _print(answer: Results, output: OutputFormat | None) -> None:
    """Print what was copied."""
    error = print_results(answer)
    if output is not None:
        emit_output(answer.as_json(), [str(answer.folder)], output)
    if error:
        raise error

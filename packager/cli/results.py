"""`mlpack results`: copies OUTPUT_DIR of a deployed package into a local folder."""

from pathlib import Path
from typing import Annotated

import typer

from packager.cli.arguments import OverlayOption, PackageToRead
from packager.cli.cluster_arguments import ClusterOptions, OneWorkload, Worker, open_target, seconds
from packager.cli.console import Output, emit_output, say
from packager.cli.printing import print_results
from packager.cluster.results import ResultsCopy


def results(
    at: ClusterOptions,
    package: PackageToRead,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to copy to; created when missing.")],
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
    patience = seconds(timeout)
    with open_target(package, overlay, at.client(), workload=workload) as target:
        errors = []
        for answer in ResultsCopy(target, folder, patience, say).copies(worker):
            errors.append(print_results(answer))
            emit_output(answer.as_json(), [answer.folder], output, ())
    for error in filter(None, errors):
        raise error

"""`mlpack results`: copies OUTPUT_DIR of a deployed package into a local folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from packager.base.errors import ClusterError
from packager.cli.cluster_arguments import (
    ClusterOptions,
    OneWorkload,
    OverlayOption,
    PackagePath,
    Worker,
    open_target,
    seconds,
    with_cluster,
)
from packager.cli.console import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.app.results import Results
    from packager.cluster.tarmessages import Remarks

_MAX_NAMES = 20

Folder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder to copy to; created when missing.", show_default=False)
]


@with_cluster
def results(
    ctx: typer.Context,
    at: ClusterOptions,
    package: PackagePath,
    folder: Folder,
    overlay: OverlayOption = None,
    workload: OneWorkload = None,
    worker: Worker = None,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long to wait without receiving data; 0 for no limit.")
    ] = "1m",
) -> None:
    """Copy OUTPUT_DIR to a local folder, during the run or after it; with several workers, from worker 0.

    Of a Job with an index for each pod, each running index has a folder of its number. Files of the same name are
    replaced; nothing is removed. Exit code 7 when a file could not be read or changed during the copy; 8 after
    --timeout.
    """
    from packager.app.results import copied, copied_by_index

    patience = seconds(timeout)
    to_cluster = at.client(ctx)
    with open_target(ctx, package, overlay, to_cluster, workload) as target:
        has_copied = False
        for answer in copied_by_index(target, folder, patience=patience, tell=say) if worker is None else ():
            _report(answer)
            has_copied = True
        if not has_copied:
            with copied(target, folder, worker=worker, patience=patience, tell=say) as answer:
                _report(answer)


def _report(answer: Results) -> None:
    """Print the result of the copy.

    Raises:
        ClusterError: The copy is incomplete, or differs from the files in the pod.
    """
    _show(answer)
    if not answer.is_complete:
        raise _incomplete(answer.copied.remarks)


def _show(results: Results) -> None:
    copied, place = results.copied, results.place
    received, remarks = copied.received, copied.remarks
    _list("skipped: not a plain file, or a name that is not allowed here", received.skipped, received.unnamed)
    _list("skipped: not a plain file", remarks.left_out)
    _list("not read", remarks.unread)
    _list("changed while it was read, and may be inconsistent", remarks.changed)
    _list("removed or renamed before it was read", remarks.gone)
    _list("files were added or removed while this folder was read", copied.busy)
    _list("message of tar", remarks.others)
    count = f"{received.files} file{'s' if received.files != 1 else ''}"
    say(f"copied {count}, {received.size:,} bytes, from {place.pod}:{place.path} to {results.folder}")


def _list(what: str, names: Sequence[str], unnamed: int = 0) -> None:
    """Print a message for the first few of `names`."""
    for name in names[:_MAX_NAMES]:
        say(f"{what}: {name}")
    if (more := len(names) + unnamed - _MAX_NAMES) > 0:
        say(f"{what}: {more:,} more")


def _incomplete(remarks: Remarks) -> ClusterError:
    counts = (
        (len(remarks.unread), "could not be read"),
        (len(remarks.changed), "changed while it was read"),
        (len(remarks.gone), "was removed before it was read"),
    )
    what = ", ".join(f"{count:,} {how}" for count, how in counts if count)
    again = "run it again when no program is writing there"
    hint = "the pod's user cannot read them: check with mlpack exec" if remarks.unread else again
    return ClusterError(f"the copy differs from the results in the pod: {what}", hint=hint)

"""Prints the parts of a log and the applied objects, for several verbs. Tests: cli/test_results.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cli.console import emit_log, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from packager.cluster.admission import AdmissionChange
    from packager.cluster.deploy import Deployed
    from packager.cluster.logs import Part
    from packager.cluster.results import Results
    from packager.cluster.tarmessages import Remarks

_MAX_NAMES = 20


def print_parts(parts: Iterable[Part]) -> None:
    """Print each part as it arrives: bytes of the log to stdout, remarks about the log to stderr."""
    for part in parts:
        if isinstance(part, bytes):
            emit_log(part)
        else:
            say(part)


def print_deployed(deployed: Deployed) -> None:
    """Print the applied objects, the deleted ones, and the changes that the cluster has made."""
    print_changes(deployed.changes)
    for removed in deployed.removed:
        say(f"{removed} is deleted: the overlay does not contain it any more")
    verb = "are" if ", " in deployed.workload else "is"
    say(f"{deployed.workload} {verb} deployed in the namespace {deployed.namespace}")


def print_changes(changes: Iterable[AdmissionChange]) -> None:
    """Print the changes that the cluster makes to applied objects."""
    for change in changes:
        say(f"note: {change}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_results(results: Results) -> ClusterError | None:
    """Print what was copied, and return the error if the copy is incomplete, or differs from the files in the pod."""
    copied, place = results.copied, results.place
    received, remarks = copied.received, copied.remarks
    _list("skipped: not a plain file, or a name that is not allowed here", received.skipped, received.unnamed)
    _list("skipped: not a plain file", remarks.left_out)
    _list("not read", remarks.unread)
    _list("changed while it was read, and may be inconsistent", remarks.changed)
    _list("removed or renamed before it was read", remarks.gone)
    _list("files were added or removed while this folder was read", copied.busy)
    _list("message of tar", remarks.others)
    count = counted(received.files, "file")
    unchanged = f"; {counted(copied.unchanged, 'file')} had arrived before" if copied.unchanged else ""
    say(f"copied {count}, {received.size:,} bytes, from {place.pod}:{place.path} to {results.folder}{unchanged}")
    if copied.unchecked:
        say(f"note: the files were not compared by digest: {copied.unchecked}")
    return None if results.is_complete else _incomplete(remarks)


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
    hint = "the pod's user cannot read them: check with kubectl exec POD -- id" if remarks.unread else again
    return ClusterError(f"the copy differs from the results in the pod: {what}", hint=hint)

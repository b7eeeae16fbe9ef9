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
    for warning in deployed.warnings:
        say(f"the server warns: {warning}")
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
    print_names("skipped: not a plain file, or a name that is not allowed here", results.skipped, results.unnamed)
    print_names("not read", results.unread)
    print_names("changed while it was read, and may be inconsistent", results.changed)
    print_names("removed or renamed before it was read", results.gone)
    count = counted(results.files, "file")
    unchanged = f"; {counted(results.unchanged, 'file')} had arrived before" if results.unchanged else ""
    say(f"copied {count}, {results.size:,} bytes, from {results.pod}:{results.path} to {results.folder}{unchanged}")
    if results.is_complete:
        return None
    counts = (
        (len(results.unread), "could not be read"),
        (len(results.changed), "changed while it was read"),
        (len(results.gone), "was removed before it was read"),
    )
    what = ", ".join(f"{count:,} {how}" for count, how in counts if count)
    again = "run it again when no program is writing there"
    hint = "the pod's user cannot read them: check with kubectl exec POD -- id" if results.unread else again
    return ClusterError(f"the copy differs from the results in the pod: {what}", hint=hint)


def print_names(what: str, names: Sequence[str], unnamed: int = 0) -> None:
    """Print a message for the first few of `names`, and one for the number of the others."""
    for name in names[:_MAX_NAMES]:
        say(f"{what}: {name}")
    if (more := max(len(names) - _MAX_NAMES, 0) + unnamed) > 0:
        say(f"{what}: {more:,} more")

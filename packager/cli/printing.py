"""Prints logs, applied objects, copied results, findings and curves, for several verbs. Tests: cli/test_results.py."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cli.console import emit_log, say, table
from packager.cluster.deploy import Deployed
from packager.cluster.logs import Part
from packager.cluster.results import Results
from packager.cluster.status import PodStatus, number
from packager.kubernetes.verdict import Finding

if TYPE_CHECKING:
    from packager.diagnosis.curves.points import Curve

MAX_PODS = 12
"""The most pods that a view lists; a job may have thousands. Findings report failed pods beyond these."""

_MAX_NAMES = 20


def print_parts(parts: Iterable[Part]) -> None:
    """Print each part as it arrives: bytes of the log to stdout, remarks about the log to stderr."""
    for part in parts:
        if isinstance(part, bytes):
            emit_log(part)
        else:
            say(part)


def print_deployed(deployed: Deployed) -> None:
    """Print the applied objects, the deleted ones, and the server's warnings."""
    say(*(f"the server warns: {warning}" for warning in deployed.warnings))
    say(*(f"{removed} is deleted: the overlay does not contain it any more" for removed in deployed.removed))
    verb = "are" if ", " in deployed.workload else "is"
    say(f"{deployed.workload} {verb} deployed in the namespace {deployed.namespace}")


def counted(number: int, noun: str = "file") -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def print_results(results: Results) -> ClusterError | None:
    """Print what was copied, and return the error if the copy is incomplete, or differs from the files in the pod."""
    print_names("skipped: not a plain file, or a name that is not allowed here", results.skipped, results.unnamed)
    print_names("not read", results.unread)
    print_names("changed while it was read, and may be inconsistent", results.changed)
    print_names("removed or renamed before it was read", results.gone)
    unchanged = f"; {counted(results.unchanged)} had arrived before" if results.unchanged else ""
    source = f"{results.pod}:{results.path}"
    say(f"copied {counted(results.files)}, {results.size:,} bytes, from {source} to {results.folder}{unchanged}")
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
    say(*(f"{what}: {name}" for name in names[:_MAX_NAMES]))
    if (more := max(len(names) - _MAX_NAMES, 0) + unnamed) > 0:
        say(f"{what}: {more:,} more")


def print_finding(finding: Finding) -> None:
    """Print a finding with its hint and log."""
    say(*finding_lines(finding))


def finding_lines(finding: Finding, *, log: bool = True) -> list[str]:
    """Return a finding as lines for a person, with or without its log."""
    lines = [str(finding), *(log_lines(finding) if log else ())]
    if finding.next_try:
        lines.append(f"  {next_try(finding)}")
    return [*lines, f"  hint: {finding.hint}"] if finding.hint else lines


def log_lines(finding: Finding) -> list[str]:
    """Return the log of a finding as lines for a person."""
    return [f"  | {line}" for line in finding.log]


def next_try(finding: Finding) -> str:
    """Return when a finding's pod is tried again, in words."""
    return f"next try: not before {finding.next_try:%H:%M:%S} UTC"


def pod_rows(pods: Sequence[PodStatus]) -> list[tuple[str, str, str]]:
    """Return name, state and restarts of at most MAX_PODS pods, below a heading."""
    listed = [(pod.name, pod.state, str(pod.restarts)) for pod in pods[:MAX_PODS]]
    if len(pods) > MAX_PODS:
        listed.append((f"and {len(pods) - MAX_PODS} more", "", ""))
    return [("POD", "STATE", "RESTARTS"), *listed]


def curve_lines(curves: Sequence["Curve"]) -> Iterator[str]:
    """Return the lines of a table of the last, lowest and highest values."""
    rows = [("NAME", "POD", "STEP", "LAST", "LOWEST", "HIGHEST")]
    for curve in curves:
        last = (f"{curve.last[0]:,}", number(curve.last[1])) if curve.last else ("-", "-")
        rows.append((curve.name, curve.pod, *last, number(curve.lowest), number(curve.highest)))
    return table(rows)

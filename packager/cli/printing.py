"""Prints the parts of a log and the applied objects, for several verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cli.console import emit_log, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.app.deploy import Deployed
    from packager.app.logs import Part
    from packager.cluster.admission import AdmissionChange


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

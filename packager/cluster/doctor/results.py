"""Checks whether the results outlive the pods. Tests: cli/test_doctor.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cluster.doctor.case import note, ok
from packager.cluster.storage import kept_results, lasting_storage, lost_with_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult


def results(case: Case) -> Iterator[CheckResult]:
    """Report where results go, and as a note results that are not on storage that outlives the pods."""
    for kept in dict.fromkeys(map(kept_results, case.manifests.per_workload)):
        if kept:
            yield ok("results", kept)
    for lost in dict.fromkeys(map(lost_with_pods, case.manifests.per_workload)):
        if lost:
            yield note("results", lost, lasting_storage(case.source))

"""Finds the reasons for which a package would fail on a cluster before anything is applied, and creates no objects.

Tests: cli/test_doctor.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from shlex import quote
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, DeniedError, MlpackError, ToolError, UnreachableError
from packager.cluster.doctor import (
    admission,
    image,
    nodes,
    permission,
    quota,
    reference,
    results,
    software,
)
from packager.cluster.doctor.case import unknown

if TYPE_CHECKING:
    from packager.cluster.doctor.case import Case, CheckResult

Check = Callable[["Case"], Iterator["CheckResult"]]

CHECKS: dict[str, Check] = {
    "server": software.versions,
    "kinds": software.kinds,
    "operator": software.operator,
    "namespace": permission.namespace,
    "permissions": permission.permissions,
    "admission": admission.admission,
    "quota": quota.quotas,
    "nodes": nodes.nodes,
    "image": image.images,
    "claims": reference.claims,
    "references": reference.references,
    "names": reference.names,
    "apply": reference.dry_run,
    "results": results.results,
}
"""The checks in the order in which a user fixes problems. Each is independent of the others."""

_AT_ONCE = 4


def examine(case: Case) -> Iterator[CheckResult]:
    """Yield the results of each check, in order, as soon as the check has ended."""
    first, *rest = CHECKS
    results, can_continue = _run_check(case, first)
    yield from results
    if not can_continue:
        return
    _ = case.trials  # before the checks that need it run side by side
    # Each check waits for kubectl most of the time.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for results, _ in pool.map(lambda check: _run_check(case, check), rest):
            yield from results


def _run_check(case: Case, check: str) -> tuple[list[CheckResult], bool]:
    """Return the results of a check, and whether the cluster can be reached by the other checks."""
    results = []
    try:
        for result in CHECKS[check](case):
            results.append(result)  # noqa: PERF402 - results before an error count
    except (ClusterError, ToolError) as error:
        results.append(_unknown_result(case, check, error))
        return results, not isinstance(error, UnreachableError)
    return results, True


def _unknown_result(case: Case, check: str, error: MlpackError) -> CheckResult:
    if not isinstance(error, DeniedError) or not error.resource:
        return unknown(check, str(error), error.hint)
    where = "-A" if error.is_cluster_wide else case.namespace_flag
    fix = f"kubectl auth can-i {error.verb} {quote(error.resource)} {where}"
    return unknown(check, f"you may not {error.verb} {error.resource}", fix)

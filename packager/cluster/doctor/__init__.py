"""Finds the reasons for which a package would fail on a cluster before anything is applied, and creates no objects.

Tests: cli/test_doctor.py.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from packager.base import values
from packager.base.errors import ClusterError, DeniedError, MlpackError, ToolError, UnreachableError
from packager.cluster.doctor import capacity, reference, server
from packager.cluster.doctor.case import Case, CheckResult, CheckState, fails, unknown
from packager.cluster.target import Target
from packager.kubernetes.podsecurity import Level
from packager.verify import Checks, trust

CHECKS: dict[str, Callable[[Case], Iterator[CheckResult]]] = {
    "server": server.versions,
    "operator": server.operator,
    "permissions": server.permissions,
    "admission": server.admission,
    "quota": capacity.quotas,
    "nodes": capacity.nodes,
    "claims": reference.claims,
    "references": reference.references,
    "apply": server.dry_run,
}
"""The checks in the order in which a user fixes problems. Each is independent of the others."""

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all checks."""

    findings: tuple[CheckResult, ...]  # the result of each check

    @property
    def failures(self) -> int:
        """The number of findings that would make the package fail."""
        return sum(finding.state is CheckState.FAILS for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """1 when a check failed, 6 when none failed but one could not be made, else 0."""
        if self.failures:
            return MlpackError.exit_code
        return ToolError.exit_code if any(finding.state is CheckState.UNKNOWN for finding in self.findings) else 0

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"findings": values.as_plain(list(self.findings)), "exit_code": self.exit_code}


def doctor(target: Target, allowed: frozenset[str], level: Level | None) -> Iterator[CheckResult]:
    """Check everything that a deploy of the package needs from the cluster, and yield the results one by one.

    Args:
        target: The overlay, and the cluster.
        allowed: The kinds and variables that the deploy will allow.
        level: The Pod Security level that the deploy will accept; None for the level that the package was sealed with.
    """
    kubectl, namespace = target.kubectl, target.kubectl.default_namespace()
    accepted = Checks((kubectl.program,), level=level, allowed=allowed, namespace=kubectl.namespace)
    case = Case(target, replace(kubectl, namespace=namespace), namespace)
    for problem in trust(target.package, target.rendered, accepted):
        yield fails("package", str(values.replace(problem, hint=None)), problem.hint)
    first, *others = CHECKS
    results, can_continue = _run_check(case, first)
    yield from results
    if not can_continue:
        return
    _ = case.trials  # before the checks that need it run side by side
    # Each check waits for kubectl most of the time.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for results, _ in pool.map(lambda check: _run_check(case, check), others):
            yield from results


def _run_check(case: Case, check: str) -> tuple[list[CheckResult], bool]:
    """Return the results of a check, and whether the cluster can be reached by the other checks."""
    results = []
    try:
        for result in CHECKS[check](case):
            results.append(result)  # noqa: PERF402 - results before an error count
    except (ClusterError, ToolError) as error:
        message, fix = str(error), error.hint
        if isinstance(error, DeniedError) and error.resource:
            where = "-A" if error.is_cluster_wide else case.namespace_flag
            message = f"you may not {error.verb} {error.resource}"
            fix = f"kubectl auth can-i {error.verb} {quote(error.resource)} {where}"
        return [*results, unknown(check, message, fix)], not isinstance(error, UnreachableError)
    return results, True

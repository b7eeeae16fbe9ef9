"""Finds the reasons for which a package would fail on a cluster before anything is applied, and creates no objects.

Tests: cli/test_doctor.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, Any

from packager.base import values
from packager.base.errors import ClusterError, DeniedError, MlpackError, ToolError, UnreachableError
from packager.base.paths import argument
from packager.cluster.doctor import (
    admission,
    capacity,
    permission,
    reference,
    software,
)
from packager.cluster.doctor.case import Case, CheckResult, CheckState, fails, unknown
from packager.package import layout
from packager.verify import Checks, security, trust

if TYPE_CHECKING:
    from packager.cluster.target import Target
    from packager.kubernetes.podsecurity import Level
    from packager.package.opened import Package

Check = Callable[[Case], Iterator[CheckResult]]

CHECKS: dict[str, Check] = {
    "server": software.versions,
    "kinds": software.kinds,
    "operator": software.operator,
    "namespace": permission.namespace,
    "permissions": permission.permissions,
    "admission": admission.admission,
    "quota": capacity.quotas,
    "nodes": capacity.nodes,
    "claims": reference.claims,
    "references": reference.references,
    "names": reference.names,
    "apply": reference.dry_run,
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
        return {"findings": [_as_json(finding) for finding in self.findings], "exit_code": self.exit_code}


def doctor(
    target: Target,
    allowed: frozenset[str],
    level: Level | None,
) -> Iterator[CheckResult]:
    """Check everything that a deploy of the package needs from the cluster, and yield the results one by one.

    Args:
        target: The overlay, and the cluster.
        allowed: The kinds and variables that the deploy will allow.
        level: The Pod Security level that the deploy will accept; None for the level that the package was sealed with.
    """
    namespace = target.kubectl.default_namespace()
    overlay = target.rendered
    exceeded = security.exceeded(overlay)
    case = Case(
        str(target.package.source),
        replace(target.kubectl, namespace=namespace),
        namespace,
        target.manifests,
        overlay,
        security.level(exceeded),
        exceeded,
        target.identity,
        _creating(target.package),
    )
    yield from chain(_trust_failures(target, allowed, level), examine(case))


def _creating(package: Package) -> dict[str, str]:
    """Return the name of the package's workspace claim, if it has one, with the command that creates the claim."""
    if package.workspace is None:
        return {}
    if package.folder != package.source:  # kubectl cannot read an archive
        return {package.workspace: f"mlpack run {argument(package.source)}"}
    return {package.workspace: f"kubectl apply -k {argument(package.source / layout.overlay(layout.WORKSPACE))}"}


def _trust_failures(target: Target, allowed: frozenset[str], level: Level | None) -> Iterator[CheckResult]:
    """Yield the problems for which `mlpack deploy` would refuse the package."""
    program, namespace = target.kubectl.program, target.kubectl.namespace
    checks = Checks((program,), level=level, allowed=allowed, namespace=namespace)
    for problem in trust(target.package, target.rendered, checks):
        yield fails("package", str(values.replace(problem, hint=None)), problem.hint)


def _as_json(finding: CheckResult) -> dict[str, str | None]:
    return {"check": finding.check, "state": finding.state, "message": finding.message, "fix": finding.fix}

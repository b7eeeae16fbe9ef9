"""Checks kubectl, the server, the kinds that it serves, and the operator. Tests: cli/test_doctor.py."""

from __future__ import annotations

import json
import re
from shlex import quote
from typing import TYPE_CHECKING, Any

from packager.base.errors import UnreachableError
from packager.cluster.doctor.case import fails, note, ok, unknown
from packager.cluster.operator_health import Alive, check_heartbeat
from packager.kubernetes.kubectl.refusals import error_from
from packager.workloads.kinds import kinds as known_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.workloads.workload import Operator

_SECONDS = 30.0

OLDEST_KUBECTL = 30
"""The minor version of the oldest kubectl with which packages are tested."""


def versions(case: Case) -> Iterator[CheckResult]:
    """Check that kubectl is new enough, and that the server answers.

    Raises:
        UnreachableError: The server does not answer, so that no other check is possible.
    """
    done = case.kubectl.run("version", "--output=json", "--request-timeout=20s", timeout=_SECONDS)
    try:
        version_info: dict[str, Any] = json.loads(done.stdout)
    except (ValueError, RecursionError):
        raise error_from(done.stderr) from None
    client = version_info.get("clientVersion") or {}
    if _minor(client) < OLDEST_KUBECTL:
        message = f"{case.kubectl.program} {client.get('gitVersion')} is too old: 1.{OLDEST_KUBECTL} or later is needed"
        yield fails("kubectl", message, "https://kubernetes.io/docs/tasks/tools")
    else:
        yield ok(
            "kubectl",
            f"{client.get('gitVersion')}, with kustomize {version_info.get('kustomizeVersion', 'of its own')}",
        )
    server = version_info.get("serverVersion")
    if server is None:
        raise UnreachableError(str(error_from(done.stderr)), hint="kubectl cluster-info")
    apart = abs(_minor(client) - _minor(server))
    version = server.get("gitVersion")
    if apart > 1:
        yield note("server", f"{version}, {apart} minor versions from kubectl's: only one is supported")
    else:
        yield ok("server", f"{version}")


def kinds(case: Case) -> Iterator[CheckResult]:
    """Check that every kind is served in the version that the package uses."""
    used = dict.fromkeys((item["apiVersion"], item["kind"]) for item in case.manifests.objects)
    for api, kind in used:
        if case.resource(api, kind):
            continue
        group = api.rpartition("/")[0]
        others = [version for version in case.versions(group) if f"{group}/{version}" != api]
        only = f", only {', '.join(others)}" if others else ""
        fix = _installation(kind) or f"kubectl api-resources --api-group={quote(group)}"
        yield fails("kinds", f"{kind} is not served in {api}{only}", fix)
    if all(case.resource(*item) for item in used):
        yield ok("kinds", ", ".join(f"{kind} ({api})" for api, kind in used))


def operator(case: Case) -> Iterator[CheckResult]:
    """Check that the operator is running, and not only installed."""
    for needed in dict.fromkeys(one.kind.operator for one in case.manifests.per_workload):
        if needed is not None:
            yield _operator_result(case, needed)


def _operator_result(case: Case, needed: Operator) -> CheckResult:
    heartbeat = check_heartbeat(case.kubectl, needed)
    match heartbeat.alive:
        case Alive.YES:
            return ok("operator", f"{needed.name} is running: {heartbeat.evidence}")
        case Alive.NO:
            where = f"kubectl get pods -A | grep {needed.deployment}" if heartbeat.deployment else needed.installation()
            return fails("operator", f"{needed.name} is not running: {heartbeat.evidence}", where)
        case Alive.UNKNOWN:
            fix = "kubectl auth can-i list leases.coordination.k8s.io -A"
            return unknown("operator", f"cannot tell whether {needed.name} is running: {heartbeat.evidence}", fix)


def _installation(kind: str) -> str | None:
    """Return the command that installs the operator of a kind; None if mlpack installs none for it."""
    known = known_kinds().get(kind)
    return known.operator.installation() if known and known.operator else None


def _minor(version: dict[str, Any]) -> int:
    match = re.match(r"\d+", str(version.get("minor", "")))
    return int(match[0]) if match else 0

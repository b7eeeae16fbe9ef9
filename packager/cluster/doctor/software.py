"""Is everything there that the package is made for: kubectl, the server, the kinds, the operator?"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.cluster.client import failed
from packager.cluster.doctor.case import fails, ok, unknown
from packager.cluster.heartbeat import Alive, listen
from packager.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, Finding

_OLDEST = 22
"""Kubernetes 1.22: the oldest kubectl whose kustomize reads a package."""

_SECONDS = 30.0

INSTALL = {"MPIJob": "mlpack operator install mpi"}


def versions(case: Case) -> Iterator[Finding]:
    """Kubectl is new enough, and the server answers.

    Raises:
        UnreachableError: It does not; nothing else can be found out then.
    """
    done = case.kubectl.run("version", "--output=json", "--request-timeout=20s", timeout=_SECONDS)
    try:
        said = json.loads(done.stdout)
    except ValueError:
        raise failed(done.stderr) from None
    client = said.get("clientVersion") or {}
    if _minor(client) < _OLDEST:
        message = f"{case.kubectl.program} {client.get('gitVersion')} cannot read the package: 1.{_OLDEST} or later can"
        yield fails("kubectl", message, "https://kubernetes.io/docs/tasks/tools")
    else:
        yield ok("kubectl", f"{client.get('gitVersion')}, with kustomize {said.get('kustomizeVersion', 'of its own')}")
    server = said.get("serverVersion")
    if server is None:
        raise UnreachableError(str(failed(done.stderr)), hint="kubectl cluster-info")
    apart = abs(_minor(client) - _minor(server))
    remark = f", {apart} minor versions from kubectl's: more than one is not promised to work" if apart > 1 else ""
    yield ok("server", f"{server.get('gitVersion')}{remark}")


def kinds(case: Case) -> Iterator[Finding]:
    """Every kind is served, in the version that the package uses."""
    wanted = dict.fromkeys((each["apiVersion"], each["kind"]) for each in case.manifests.objects)
    for api, kind in wanted:
        if case.resource(api, kind):
            continue
        group = api.rpartition("/")[0]
        others = [version for version in case.versions(group) if f"{group}/{version}" != api]
        there = f", only {', '.join(others)}" if others else ""
        fix = INSTALL.get(kind, f"kubectl api-resources --api-group={group}")
        yield fails("kinds", f"{kind} is not served in {api}{there}", fix)
    if all(case.resource(*each) for each in wanted):
        yield ok("kinds", ", ".join(f"{kind} ({api})" for api, kind in wanted))


def operator(case: Case) -> Iterator[Finding]:
    """The operator acts, and is not only installed."""
    name = case.manifests.engine.operator
    if name is None:
        return
    heartbeat = listen(case.kubectl, name)
    kind = case.manifests.engine.kind
    match heartbeat.alive:
        case Alive.YES:
            yield ok("operator", f"{name} is at work: {heartbeat.evidence}")
        case Alive.NO:
            where = "kubectl get pods -A | grep " + name if heartbeat.deployment else INSTALL.get(kind)
            yield fails("operator", f"{name} is not at work: {heartbeat.evidence}", where)
        case Alive.UNKNOWN:
            fix = "kubectl auth can-i list leases.coordination.k8s.io -A"
            yield unknown("operator", f"whether {name} is at work: {heartbeat.evidence}", fix)


def _minor(version: dict[str, Any]) -> int:
    found = re.match(r"\d+", str(version.get("minor", "")))
    return int(found[0]) if found else 0

"""Checks kubectl, the server, its kinds and operators, the namespace and the user's permissions.

Tests: cli/test_doctor.py.
"""

import json
import re
from collections.abc import Iterator
from shlex import quote
from typing import Any

from packager.base.errors import ClusterError, UnreachableError
from packager.cluster.admission import create
from packager.cluster.doctor.case import Case, CheckResult, fails, note, ok, unknown
from packager.cluster.operator import Alive, check_heartbeat
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.objects import labels, status
from packager.kubernetes.podsecurity import Level
from packager.verify import security
from packager.workloads.kinds import kinds as known_kinds
from packager.workloads.kinds import operators

_SECONDS = 30.0

OLDEST_KUBECTL = 30
"""The minor version of the oldest kubectl with which packages are tested."""

_ENFORCE = "pod-security.kubernetes.io/enforce"

# The permissions that deploy, status, logs, results and delete need, besides those on the applied objects.
_ALWAYS_NEEDED = (
    ("", "pods", "", "get"),
    ("", "pods", "", "list"),
    ("", "pods", "log", "get"),
    ("", "pods", "exec", "create"),
    ("", "events", "", "list"),
)
_LACKING = {
    "events": "mlpack can then report fewer reasons for failures",
    "pods/exec": "`mlpack results`, `workspace` and `dev` cannot reach files in pods then",
}
"""The permissions that a deploy does without, each with what does not work."""
_APPLY_VERBS = ("get", "create", "patch", "delete")


def versions(case: Case) -> Iterator[CheckResult]:
    """Check kubectl and the server. Raises UnreachableError if no other check is possible."""
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
        kustomize = version_info.get("kustomizeVersion", "of its own")
        yield ok("kubectl", f"{client.get('gitVersion')}, with kustomize {kustomize}")
    server = version_info.get("serverVersion")
    if server is None:
        raise UnreachableError(str(error_from(done.stderr)), hint="kubectl cluster-info")
    apart = abs(_minor(client) - _minor(server))
    version = server.get("gitVersion")
    if apart > 1:
        yield note("server", f"{version}, {apart} minor versions from kubectl's: only one is supported")
    else:
        yield ok("server", f"{version}")


def _minor(version: dict[str, Any]) -> int:
    match = re.match(r"\d+", str(version.get("minor", "")))
    return int(match[0]) if match else 0


def kinds(case: Case) -> Iterator[CheckResult]:
    """Check that every kind is served in the version that the package uses."""
    used = dict.fromkeys((item["apiVersion"], item["kind"]) for item in case.manifests.objects)
    missing = [(api, kind) for api, kind in used if not case.resource(api, kind)]
    for api, kind in missing:
        group = api.rpartition("/")[0]
        others = [version for version in case.versions(group) if f"{group}/{version}" != api]
        only = f", only {', '.join(others)}" if others else ""
        known = known_kinds().get(kind)
        installation = known.operator.installation() if known and known.operator else None
        fix = installation or f"kubectl api-resources --api-group={quote(group)}"
        yield fails("kinds", f"{kind} is not served in {api}{only}", fix)
    if not missing:
        yield ok("kinds", ", ".join(f"{kind} ({api})" for api, kind in used))


def operator(case: Case) -> Iterator[CheckResult]:
    """Check that the operators are running, and not only installed."""
    for needed in filter(None, dict.fromkeys(one.kind.operator for one in case.manifests.per_workload)):
        heartbeat = check_heartbeat(case.kubectl, needed)
        match heartbeat.alive:
            case Alive.YES:
                yield ok("operator", f"{needed.name} is running: {heartbeat.evidence}")
            case Alive.NO:
                pods = f"kubectl get pods -A | grep {needed.deployment}"
                fix = pods if heartbeat.deployment else needed.installation()
                yield fails("operator", f"{needed.name} is not running: {heartbeat.evidence}", fix)
            case Alive.UNKNOWN:
                message = f"cannot tell whether {needed.name} is running: {heartbeat.evidence}"
                yield unknown("operator", message, "kubectl auth can-i list leases.coordination.k8s.io -A")


def namespace(case: Case) -> Iterator[CheckResult]:
    """Check that the namespace exists, and that the overlay meets the namespace's Pod Security level."""
    name = case.namespace
    item = case.kubectl.get(f"namespaces/{name}")
    if item is None:
        yield fails("namespace", f"namespace {name} not found", f"kubectl create namespace {quote(name)}")
        return
    if status(item).get("phase") == "Terminating":
        yield fails("namespace", f"{name} is being deleted", f"kubectl get namespace {quote(name)} -o yaml")
        return
    enforced, order = labels(item).get(_ENFORCE, Level.privileged), list(Level)
    exceeded = security.exceeded(case.overlay)
    needed = security.level(exceeded)
    if enforced not in order:
        yield ok("namespace", f"{name}; it enforces {enforced}, which is not a level")
    elif order.index(needed) <= order.index(Level(enforced)):
        yield ok("namespace", f"{name}, which enforces Pod Security {enforced}; the overlay meets {needed}")
    else:
        first = exceeded[0]
        file, line, _ = first.place
        message = f"{name} enforces Pod Security {enforced}, and the overlay needs {needed}: {first.field}"
        fix = f"kubectl label --overwrite namespace {quote(name)} {_ENFORCE}={needed}"
        yield fails("namespace", f"{message} ({first.reason}; {file}:{line})", fix)


def permissions(case: Case) -> Iterator[CheckResult]:
    """Check that the user has the permissions that mlpack's verbs need, on every kind."""
    needed = list(_needed_permissions(case))
    fields = ("group", "resource", "subresource", "verb")
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"namespace": case.namespace, **dict(zip(fields, one, strict=True))}},
        }
        for one in needed
    ]
    done = create(case.kubectl, {"apiVersion": "v1", "kind": "List", "items": reviews}, "--output=json")
    if done.returncode != 0:
        raise error_from(done.stderr)
    denied: dict[str, list[str]] = {}
    for (group, kind, subresource, verb), answer in zip(needed, _documents(done.stdout), strict=True):
        if not answer["status"].get("allowed"):
            name = f"{kind}{f'.{group}' if group else ''}{f'/{subresource}' if subresource else ''}"
            denied.setdefault(name, []).append(verb)
    for name, verbs in denied.items():
        message = f"you may not {', '.join(verbs)} {name} in {case.namespace}"
        if name in _LACKING:
            yield note("permissions", f"{message}: {_LACKING[name]}", _grant_command(case, name))
        else:
            yield fails("permissions", message, _grant_command(case, name))
    if not denied:
        yield ok("permissions", f"{len(needed)} of {len(needed)} that mlpack's verbs need")


def _needed_permissions(case: Case) -> Iterator[tuple[str, str, str, str]]:
    """Yield the group, resource, subresource and verb of each needed permission."""
    for api, kind in dict.fromkeys((item["apiVersion"], item["kind"]) for item in case.manifests.objects):
        if name := case.resource(api, kind):
            yield from ((api.rpartition("/")[0], name, "", verb) for verb in _APPLY_VERBS)
    for resource in dict.fromkeys(resource for one in case.manifests.per_workload for resource in one.kind.owned):
        plural, _, group = resource.partition(".")
        yield group, plural, "", "list"
    yield from _ALWAYS_NEEDED


def _grant_command(case: Case, name: str) -> str:
    """Return the command with which an administrator grants a permission."""
    known = [operator for operator in operators().values() if name.partition("/")[0] == operator.crd]
    role = known[0].edit_role if known else "edit"
    if role is None:
        role = f"mlpack-{known[0].short}"
        verbs = f"--verb={','.join(_APPLY_VERBS)} --resource={name}"
        binding = f"kubectl create rolebinding {role} --role={role} --user=YOU {case.namespace_flag}"
        return f"kubectl create role {role} {verbs} {case.namespace_flag} && {binding}"
    return f"kubectl create rolebinding mlpack-{role} --clusterrole={role} --user=YOU {case.namespace_flag}"


def _documents(text: str) -> list[Any]:
    """Return the JSON documents in `text`, which kubectl prints one after the other. Raises ClusterError."""
    decoder = json.JSONDecoder()
    documents = []
    while text := text.lstrip():
        try:
            document, end = decoder.raw_decode(text)
        except ValueError:
            raise ClusterError("the cluster's response was cut off") from None
        documents.append(document)
        text = text[end:]
    return documents

"""Checks the namespace and its Pod Security level, and the user's permissions. Tests: cli/test_doctor.py."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError
from packager.cluster.doctor.case import fails, note, ok
from packager.cluster.dry_run import create
from packager.kubernetes.kubectl.refusals import error_from
from packager.kubernetes.objects import labels, status
from packager.kubernetes.podsecurity import Level
from packager.workloads.kinds import operators

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult

_ENFORCE = "pod-security.kubernetes.io/enforce"
_SECONDS = 60.0

# The permissions that deploy, status, logs, exec, results and delete need, besides those on the applied objects.
_ALWAYS_NEEDED = (
    ("", "pods", "", ("get", "list")),
    ("", "pods", "log", ("get",)),
    ("", "pods", "exec", ("create",)),
    ("", "events", "", ("list",)),
)
_LACKING = {
    "events": "mlpack can then report fewer reasons for failures",
    "pods/exec": "`mlpack results`, `workspace` and `dev` cannot reach files in pods then",
}
"""The permissions that a deploy does without, each with what does not work."""
_APPLY_VERBS = ("get", "create", "patch", "delete")


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
    enforced = labels(item).get(_ENFORCE, Level.privileged)
    order = list(Level)
    if enforced not in order:
        yield ok("namespace", f"{name}; it enforces {enforced}, which is not a level")
    elif order.index(case.level) <= order.index(Level(enforced)):
        yield ok("namespace", f"{name}, which enforces Pod Security {enforced}; the overlay meets {case.level}")
    else:
        first = case.exceeded[0]
        file, line, _ = first.place
        message = f"{name} enforces Pod Security {enforced}, and the overlay needs {case.level}: {first.field}"
        fix = f"kubectl label --overwrite namespace {quote(name)} {_ENFORCE}={case.level}"
        yield fails("namespace", f"{message} ({first.reason}; {file}:{line})", fix)


def permissions(case: Case) -> Iterator[CheckResult]:
    """Check that the user has the permissions that mlpack's verbs need, on every kind."""
    needed = list(_needed_permissions(case))
    reviews = [
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "namespace": case.namespace,
                    "verb": verb,
                    "group": group,
                    "resource": kind,
                    "subresource": subresource,
                }
            },
        }
        for group, kind, subresource, verb in needed
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
        name = case.resource(api, kind)
        for verb in _APPLY_VERBS if name else ():
            yield api.rpartition("/")[0], str(name), "", verb
    for resource in dict.fromkeys(resource for one in case.manifests.per_workload for resource in one.kind.owned):
        plural, _, group = resource.partition(".")
        yield group, plural, "", "list"
    for group, name, subresource, verbs in _ALWAYS_NEEDED:
        for verb in verbs:
            yield group, name, subresource, verb


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

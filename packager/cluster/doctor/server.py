"""Checks kubectl, the server, its operators, the user's permissions, and dry runs. Tests: cli/test_doctor.py."""

import json
import re
from collections.abc import Iterator
from typing import Any

from packager.base.errors import ClusterError, DeniedError, MlpackError, NotEvaluatedError, UnreachableError
from packager.cluster.apply import create
from packager.cluster.doctor.case import Case, CheckResult, fails, note, ok, unknown
from packager.cluster.operator import Alive, check_heartbeat
from packager.cluster.removal import resource_names
from packager.kubernetes.kubectl.refusals import PREREQUISITE, error_from
from packager.kubernetes.remedy import Action
from packager.kubernetes.verdict import Finding
from packager.workloads.kinds import operators

_SECONDS = 30.0

OLDEST_KUBECTL = 30
"""The minor version of the oldest kubectl with which packages are tested."""

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


def operator(case: Case) -> Iterator[CheckResult]:
    """Check that the operators are running, and not only installed."""
    for needed in filter(None, dict.fromkeys(one.kind.operator for one in case.target.manifests.per_workload)):
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
    for api, kind in dict.fromkeys((item["apiVersion"], item["kind"]) for item in case.target.manifests.objects):
        if name := resource_names(case.kubectl, api).get(kind):
            yield from ((api.rpartition("/")[0], name, "", verb) for verb in _APPLY_VERBS)
    for resource in dict.fromkeys(
        resource for one in case.target.manifests.per_workload for resource in one.kind.owned
    ):
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


def admission(case: Case) -> Iterator[CheckResult]:
    """Check that the cluster admits each group of pods.

    Refusals because of quotas and missing references are left to the checks of these.
    """
    refused: dict[tuple[str, str | None], list[str]] = {}
    failed = [trial for trial in case.trials if trial.error is not None]
    for trial in failed:
        assert trial.error is not None
        if isinstance(trial.error, NotEvaluatedError) or trial.refusal is None:
            raise trial.error
        if not _is_reported_elsewhere(trial.error, trial.refusal):
            refused.setdefault((trial.refusal.message, trial.refusal.hint), []).append(trial.role)
    for (message, hint), roles in refused.items():
        yield fails("admission", f"the pods of {' and '.join(roles)} are rejected: {message}", hint)
    if not failed:
        number = len(case.trials)
        yield ok("admission", "the pods are admitted" if number == 1 else f"{number} kinds of pod are admitted")


def dry_run(case: Case) -> Iterator[CheckResult]:
    """Check with a dry run that the server accepts every object, and that none belongs to others."""
    _, error = case.plan
    if error is None:
        yield ok("apply", f"the server accepts all {len(case.target.manifests.objects)} objects (dry run)")
    elif isinstance(error, NotEvaluatedError):
        raise error
    elif not (isinstance(error, DeniedError) and error.verb == "patch"):  # a missing permission
        yield fails("apply", str(error), error.hint)


def _is_reported_elsewhere(error: MlpackError, refusal: Finding) -> bool:
    needs_requests = refusal.remedy is not None and refusal.remedy.action is Action.SET_REQUESTS
    return (
        refusal.reason == PREREQUISITE
        or (refusal.reason == "QuotaExceeded" and not needs_requests)
        or (isinstance(error, DeniedError) and error.verb == "create")  # the operator creates the pods, not the user
    )

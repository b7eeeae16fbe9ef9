"""Would the cluster let it in: the namespace and its Pod Security level, the user's permissions, admission?"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager.cluster.client import failed
from packager.cluster.doctor.case import fails, ok
from packager.cluster.objects import labels, status
from packager.cluster.refusals import refusal
from packager.errors import ClusterError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.client import Kubectl
    from packager.cluster.doctor.case import Case, Finding
    from packager.cluster.objects import Object
    from packager.process import Finished

_ENFORCE = "pod-security.kubernetes.io/enforce"
_SECONDS = 60.0
_ABOUT_THE_DRY_RUN = re.compile(r'error when creating "[^"]+": |pods "mlpack-doctor-[^"]*" is (forbidden|invalid): ')

# What deploy, status, logs, exec, results and delete do, beyond what is applied.
_ALWAYS = (
    ("", "pods", "", ("get", "list")),
    ("", "pods", "log", ("get",)),
    ("", "pods", "exec", ("create",)),
    ("", "events", "", ("list",)),
)
_APPLIED = ("get", "create", "patch", "delete")


def namespace(case: Case) -> Iterator[Finding]:
    """The namespace is there, and enforces no more than the overlay meets."""
    name = case.namespace
    found = case.kubectl.get(f"namespaces/{name}")
    if found is None:
        yield fails("namespace", f"there is no namespace {name}", f"kubectl create namespace {name}")
        return
    if status(found).get("phase") == "Terminating":
        yield fails("namespace", f"{name} is being deleted", f"kubectl get namespace {name} -o yaml")
        return
    enforced = labels(found).get(_ENFORCE, "privileged")
    order = list(type(case.level))
    if enforced not in order:
        yield ok("namespace", f"{name}; it enforces {enforced}, which is no level")
    elif order.index(case.level) <= order.index(type(case.level)(enforced)):
        yield ok("namespace", f"{name}, which enforces Pod Security {enforced}; the overlay meets {case.level}")
    else:
        first = case.exceeded[0]
        file, line, _ = first.place
        message = f"{name} enforces Pod Security {enforced}, and the overlay needs {case.level}: {first.field}"
        fix = f"kubectl label --overwrite namespace {name} {_ENFORCE}={case.level}"
        yield fails("namespace", f"{message} ({first.reason}; {file}:{line})", fix)


def permissions(case: Case) -> Iterator[Finding]:
    """The user may do what mlpack's verbs do, on every kind."""
    wanted = list(_wanted(case))
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
        for group, kind, subresource, verb in wanted
    ]
    done = _create(case.kubectl, {"apiVersion": "v1", "kind": "List", "items": reviews}, "--output=json")
    if done.returncode != 0:
        raise failed(done.stderr)
    denied: dict[str, list[str]] = {}
    for (group, kind, subresource, verb), answer in zip(wanted, _documents(done.stdout), strict=True):
        if not answer["status"].get("allowed"):
            name = f"{kind}{f'.{group}' if group else ''}{f'/{subresource}' if subresource else ''}"
            denied.setdefault(name, []).append(verb)
    for name, verbs in denied.items():
        message = f"you may not {', '.join(verbs)} {name} in {case.namespace}"
        yield fails("permissions", message, _grant(case, name))
    if not denied:
        yield ok("permissions", f"{len(wanted)} of {len(wanted)} that mlpack's verbs need")


def admission(case: Case) -> Iterator[Finding]:
    """Each kind of pod is let in, by whatever the cluster's policies are: asked by a dry run, which makes nothing.

    What the checks of the namespace, of its quotas, and of what is referred to say better is left to them.
    """
    refused: dict[tuple[str, str | None], list[str]] = {}
    for pods in case.overlay.pods:
        given: Object = {key: pods.metadata[key] for key in ("labels", "annotations") if key in pods.metadata}
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "mlpack-doctor-", **given},
            "spec": {**pods.spec, "restartPolicy": "Never"},
        }
        done = _create(case.kubectl, pod, "--dry-run=server", "--output=name")
        if done.returncode == 0:
            continue
        error = failed(done.stderr)
        if isinstance(error, UnreachableError):
            raise error
        said = refusal("", str(error))
        if _said_elsewhere(str(error), said.reason if said else None):
            return
        message = _ABOUT_THE_DRY_RUN.sub("", said.message if said else str(error))
        refused.setdefault((message, said.hint if said else None), []).append(pods.role.lower() or pods.manifest.name)
    for (message, hint), whose in refused.items():
        yield fails("admission", f"the pods of {' and '.join(whose)} are refused: {message}", hint)
    if not refused:
        yield ok("admission", f"{len(case.overlay.pods)} kinds of pod are let in")


def _said_elsewhere(error: str, reason: str | None) -> bool:
    return (
        (reason == "PodSecurity")
        or (reason == "QuotaExceeded" and "must specify" not in error)
        or ("not found" in error and ("namespaces" in error or "serviceaccount" in error))
        or "cannot create resource" in error  # it is the operator that makes the pods
    )


def _wanted(case: Case) -> Iterator[tuple[str, str, str, str]]:
    """Yield group, resource, subresource and verb."""
    for api, kind in dict.fromkeys((each["apiVersion"], each["kind"]) for each in case.manifests.objects):
        name = case.resource(api, kind)
        for verb in _APPLIED if name else ():
            yield api.rpartition("/")[0], str(name), "", verb
    for group, name, subresource, verbs in _ALWAYS:
        for verb in verbs:
            yield group, name, subresource, verb


def _grant(case: Case, name: str) -> str:
    """Return what somebody who may grant it types."""
    role = "kubeflow-mpijobs-edit" if name.startswith("mpijobs.") else "edit"
    return f"kubectl create rolebinding mlpack-{role} --clusterrole={role} --user=YOU {case.here}"


def _create(kubectl: Kubectl, item: Any, *arguments: str) -> Finished:
    with tempfile.TemporaryDirectory(prefix="mlpack-") as folder:
        file = Path(folder) / "object.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        return kubectl.run("create", f"--filename={file}", *arguments, timeout=_SECONDS)


def _documents(text: str) -> list[Any]:
    """Return the JSON documents of `text`: kubectl prints one after the other."""
    decoder = json.JSONDecoder()
    found = []
    while text := text.lstrip():
        try:
            document, end = decoder.raw_decode(text)
        except ValueError:
            raise ClusterError("the cluster's answer broke off") from None
        found.append(document)
        text = text[end:]
    return found

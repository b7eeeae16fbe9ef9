"""Operators that workloads need: installed at a pinned version, looked after, and removed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from packager.cluster.deploy import FIELD_MANAGER, explained
from packager.cluster.objects import condition, holds, name, shown, status
from packager.cluster.pods import obstacles
from packager.errors import ClusterError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packager.cluster.client import Kubectl
    from packager.cluster.objects import Object
    from packager.cluster.releases import Bundle, Release
    from packager.cluster.verdict import Finding


_PULL = "--from FILE takes a manifest whose image is in a registry that the nodes reach"


def served(kubectl: Kubectl, release: Release) -> tuple[str, ...]:
    """Return the versions in which the cluster serves the operator's kind; none when it has no such CRD.

    Raises:
        ClusterError: The cluster cannot say.
    """
    crd = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{release.crd}")
    if crd is None or not holds(crd, "Established"):
        return ()
    return tuple(each["name"] for each in crd["spec"]["versions"] if each.get("served"))


def jobs(kubectl: Kubectl, release: Release) -> tuple[list[Object], list[Object]]:
    """Return the jobs of every namespace that still run, and those that have ended.

    Raises:
        ClusterError: The cluster cannot say.
    """
    found = kubectl.items(release.crd, "--all-namespaces")
    ended = [job for job in found if holds(job, "Succeeded") or holds(job, "Failed")]
    return [job for job in found if job not in ended], ended


def install(
    kubectl: Kubectl, release: Release, manifests: Bundle, *, dry_run: str | None = None, force_conflicts: bool = False
) -> str:
    """Apply the operator on the server's side, and return what kubectl says of each object.

    Raises:
        ClusterError: The cluster refuses, or somebody else's CRD of this name is there.
    """
    wanted = release.api.partition("/")[2]
    there = served(kubectl, release)
    if there and wanted not in there:
        raise ClusterError(
            f"{release.crd} is there already, and serves {', '.join(there)}: {release.rival}'s, most likely",
            hint=f"both bring a CRD of this name, and a cluster has one: remove that of {release.rival} first",
        )
    arguments = ["apply", "--server-side", f"--field-manager={FIELD_MANAGER}"]
    if dry_run == "client":  # kubectl knows no server-side apply on the client
        arguments = ["apply"]
    arguments += ["--force-conflicts"] if force_conflicts else []
    arguments += [f"--dry-run={dry_run}"] if dry_run else []
    return _run(kubectl, arguments, manifests)


def settle(
    kubectl: Kubectl,
    manifests: Bundle,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Yield, about once in a second, what the operator still waits for, until it serves.

    Raises:
        ClusterError: It is not going to.
    """
    since: dict[str, float] = {}
    while True:
        try:
            waiting, trouble = _unready(kubectl, manifests)
        except UnreachableError as error:
            waiting, trouble = str(error), None
        if waiting is None:
            return
        if trouble is not None:
            started = since.setdefault(trouble.message, clock())
            if clock() - started >= trouble.final_after:
                hint = _PULL if trouble.reason == "ErrImagePull" else trouble.hint
                raise ClusterError(f"the operator does not start: {trouble}", hint=hint)
            waiting = str(trouble)
        else:
            since.clear()
        yield waiting
        sleep(1)


def uninstall(kubectl: Kubectl, release: Release, manifests: Bundle | None, *, keep_crds: bool, timeout: float) -> str:
    """Delete the operator, and with its CRD, unless that is kept, every job there is; wait until it is gone.

    Args:
        kubectl: The user's.
        release: Which operator.
        manifests: What to delete; None for what the release brings.
        keep_crds: Whether CRDs, and so all jobs, stay.
        timeout: Seconds to wait.

    Returns:
        What kubectl says of each object.

    Raises:
        ClusterError: The cluster refuses.
    """
    said = ""
    for resource, where in _removable(release, manifests, keep_crds=keep_crds):
        arguments = ["delete", *resource, *where, "--ignore-not-found", "--wait", f"--timeout={timeout:g}s"]
        done = kubectl.run(*arguments, timeout=timeout + 30)
        if done.returncode != 0:
            raise explained(done.stderr)
        said += done.stdout
    return said


def removed(release: Release, manifests: Bundle | None, *, keep_crds: bool) -> list[str]:
    """Return `kind/name` of what `uninstall` deletes."""
    return [each for resources, _ in _removable(release, manifests, keep_crds=keep_crds) for each in resources]


def _removable(
    release: Release, manifests: Bundle | None, *, keep_crds: bool
) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """Yield resources and the flags that say where they are: first what acts, last what everything else is in."""
    found = [_reference(each) for each in manifests.objects] if manifests else list(release.brings)
    order = ("deployment", "serviceaccount", "clusterrolebinding", "clusterrole", "customresourcedefinition")
    found.sort(key=lambda each: order.index(each[0]) if each[0] in order else 99 if each[0] == "namespace" else 50)
    for kind, resource, namespace in found:
        if not (keep_crds and kind == "customresourcedefinition"):
            yield [f"{kind}/{resource}"], (f"--namespace={namespace}",) if namespace else ()


def _reference(item: Object) -> tuple[str, str, str]:
    return str(item["kind"]).lower(), name(item), str(item["metadata"].get("namespace") or "")


def _unready(kubectl: Kubectl, manifests: Bundle) -> tuple[str | None, Finding | None]:
    """Return what is waited for (None: nothing any more), and what may be in its way."""
    for crd in manifests.of("CustomResourceDefinition"):
        live = kubectl.get(f"customresourcedefinitions.apiextensions.k8s.io/{name(crd)}")
        if live is None or not holds(live, "Established"):
            return f"{name(crd)} is not established yet", None
    for wanted in manifests.of("Deployment"):
        where = f"--namespace={wanted['metadata'].get('namespace') or 'default'}"
        found = kubectl.items(f"deployments.apps/{name(wanted)}", where)
        if not found:
            return f"{shown(wanted)} is not there yet", None
        if _is_available(found[0]):
            continue
        refused = condition(found[0], "ReplicaFailure")
        if refused and refused["status"] == "True":
            raise ClusterError(f"{shown(wanted)} cannot make its pods: {refused.get('message')}")
        selector = found[0]["spec"]["selector"]["matchLabels"]
        pods = kubectl.items("pods", where, f"--selector={','.join(f'{k}={v}' for k, v in selector.items())}")
        events = kubectl.items("events", where)
        troubles = [each for pod in pods for each in obstacles(pod, events) if each.blocks]
        return f"{shown(wanted)}: not all of its pods are available yet", min(troubles, key=_patience, default=None)
    return None, None


def _patience(finding: Finding) -> float:
    return finding.final_after


def _is_available(deployment: Object) -> bool:
    """Whether every pod is available and of the newest kind, as `kubectl rollout status` sees it."""
    said = status(deployment)
    seen = said.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    updated = said.get("updatedReplicas", 0)
    is_complete = deployment["spec"].get("replicas", 1) <= updated and said.get("replicas", 0) <= updated
    return bool(seen and is_complete and said.get("availableReplicas", 0) >= updated)


def _run(kubectl: Kubectl, arguments: list[str], manifests: Bundle) -> str:
    with manifests.file() as file:
        done = kubectl.run(*arguments, f"--filename={file}")
    if done.returncode != 0:
        raise explained(done.stderr)
    return str(done.stdout)

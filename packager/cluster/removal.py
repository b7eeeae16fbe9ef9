"""Deletes objects by their uid, so that a new object with the same name stays. Tests: cluster/test_ownership.py."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from packager.base import workfolder
from packager.base.errors import ClusterError, DeniedError, TimedOutError, UnreachableError
from packager.cluster.observe import selector_flag
from packager.cluster.ownership import resource
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.messages import NO_OBJECT, UID_CHANGED
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.objects import Object, name, owners, shown, uid
from packager.workloads.kinds import Workload

_AT_ONCE = 4
_INTERVAL = 0.5

_LOOK_SECONDS = 2.0
"""Seconds before kubectl's deadline at which the wait ends, so that this error comes first."""

_REFUSED_SECONDS = 15.0
"""Seconds after which a refusal counts, since a restarted API server may forbid everything for a moment."""


def remove(kubectl: Kubectl, items: Sequence[Object], *, timeout: float | None) -> None:
    """Delete objects and their dependents, and wait until the objects no longer exist; None does not wait."""
    begin = kubectl.runner.clock()
    listed: dict[str, dict[str, str]] = {}
    paths = [_path(kubectl, item, listed) for item in items]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda item, path: _delete(kubectl, item, path), items, paths))

    def remaining(left: Sequence[Object]) -> list[Object]:
        live_uids = {uid(item) for item in kubectl.items(*map(resource, left))} if left else set()
        return [item for item in left if uid(item) in live_uids]

    if timeout is not None:
        _await_gone(kubectl, remaining, items, begin, timeout)


def await_stragglers(kubectl: Kubectl, kind: Workload, workload: Object, *, timeout: float) -> None:
    """Wait until pods no longer exist that the controller created before it noticed the workload's deletion."""
    selector = kind.selector(workload)
    if selector is None:
        return

    def remaining(_left: Sequence[Object]) -> list[Object]:
        try:
            pods = kubectl.items("pods", selector_flag(selector))
        except DeniedError:
            return []
        return [pod for pod in pods if uid(workload) in owners(pod)]

    _await_gone(kubectl, remaining, [workload], kubectl.runner.clock(), timeout)


def _await_gone(
    kubectl: Kubectl,
    remaining: Callable[[Sequence[Object]], list[Object]],
    items: Sequence[Object],
    begin: float,
    timeout: float,
) -> None:
    """Wait until `remaining`, called with the objects that it returned before, returns no more objects."""
    runner = kubectl.runner
    left, answered_at = items, runner.clock()
    longest = kubectl.remaining(timeout) or 0
    longest -= min(_LOOK_SECONDS, longest / 10) if longest < timeout else 0
    while True:
        what = "not deleted"
        try:
            left = remaining(left)
            answered_at = runner.clock()
        except UnreachableError:
            what = "may not be fully deleted"
        except ClusterError as error:
            what = "may not be fully deleted"
            if runner.clock() - answered_at >= _REFUSED_SECONDS:
                message = f"{', '.join(map(shown, left))}: deletion was requested, but not confirmed: {error}"
                raise ClusterError(message, hint=error.hint) from error
        if not left:
            return
        if runner.clock() - begin >= longest:
            message = f"{', '.join(map(shown, left))}: {what} after {timeout:.3g} s"
            what = f"kubectl get {resource(left[0])} -o yaml shows its finalizers, which its pods may have too"
            raise TimedOutError(message, hint=f"run it again to continue waiting; {what}")
        runner.sleep(_INTERVAL)


def _delete(kubectl: Kubectl, item: Object, path: str) -> None:
    """Delete one object, if its uid is unchanged; a missing one is no error. Raises ClusterError."""
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid(item)},
        "propagationPolicy": "Foreground",
    }
    with workfolder.temporary() as folder:
        file = folder / "options.json"
        file.write_text(json.dumps(options), encoding="utf-8")
        done = kubectl.request("delete", f"--raw={path}", f"--filename={file}")
    if done.returncode == 0 or NO_OBJECT.search(done.stderr):
        return
    if UID_CHANGED.search(done.stderr):
        raise ClusterError(f"{shown(item)} was replaced by another object of this name, which was kept")
    raise kubectl.unready_or(explained_error(done.stderr))


def _path(kubectl: Kubectl, item: Object, listed: dict[str, dict[str, str]]) -> str:
    """Return the API path of an object; `listed` caches the resource names of each API version by kind."""
    version = item["apiVersion"]
    if version not in listed:
        listed[version] = resource_names(kubectl, version)
    if item["kind"] not in listed[version]:
        raise ClusterError(f"the cluster does not list {item['kind']} in {version}")
    namespace = item["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{_root(version)}{where}/{listed[version][item['kind']]}/{name(item)}"


def resource_names(kubectl: Kubectl, version: str) -> dict[str, str]:
    """Return the names of the resources of an API version, by kind; none if the cluster does not serve it."""
    resources = (kubectl.raw(_root(version)) or {}).get("resources") or ()
    return {entry["kind"]: entry["name"] for entry in resources if "/" not in entry["name"]}


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"

"""Deletes objects by their uid, so that a new object with the same name stays. Tests: cluster/test_ownership.py."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import ClusterError, DeniedError, TimedOutError, UnreachableError
from packager.cluster.finalizers import held
from packager.cluster.leftovers import leftovers
from packager.cluster.observe import selector_flag
from packager.cluster.ownership import foreign_data, key, look_up, owner, resource
from packager.kubernetes.kubectl.messages import NO_OBJECT, UID_CHANGED
from packager.kubernetes.kubectl.refusals import explained_error
from packager.kubernetes.objects import name, owners, shown, uid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Identity
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.workloads.workload import Workload

_AT_ONCE = 4
_INTERVAL = 0.5

_LOOK_SECONDS = 2.0
"""Seconds before kubectl's deadline at which the wait ends, so that the cause can still be looked up."""

_REFUSED_SECONDS = 15.0
"""Seconds after which a refusal counts, since a restarted API server may forbid everything for a moment."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The objects in the cluster under the names of a package's overlay."""

    workloads: tuple[Object, ...]  # the existing workloads of the package
    rest: tuple[Object, ...]  # the package's other objects to delete
    kept: tuple[Object, ...]  # the claims that the user wants to keep
    # the objects that belong to others, or contain their data, each with the owner
    others: tuple[tuple[Object, str], ...]


def survey(kubectl: Kubectl, manifests: Manifests, identity: Identity, *, keep_claims: bool = False) -> Survey:
    """Return the objects that a delete would remove and those that it would keep."""
    live = look_up(kubectl, manifests.objects)
    others: list[tuple[Object, str]] = []
    ours: list[Object] = []
    for manifest in manifests.objects:
        item = live.get(key(manifest))
        if item is None:
            continue
        if not identity.owns(item):
            others.append((item, owner(item)))
        elif foreign := foreign_data(item, manifest):
            others.append((item, "; ".join(foreign)))
        else:
            ours.append(item)
    kept = [item for item in ours if keep_claims and item["kind"] == "PersistentVolumeClaim"]
    running = {key(workload) for workload in manifests.workloads}
    workloads = [item for item in ours if key(item) in running]
    rest = [item for item in ours if item not in workloads and item not in kept]
    rest += leftovers(kubectl, manifests, identity)
    return Survey(tuple(workloads), tuple(rest), tuple(kept), tuple(others))


def remove(kubectl: Kubectl, items: Sequence[Object], *, timeout: float | None) -> None:
    """Delete objects and their dependents, and wait until the objects no longer exist.

    Args:
        kubectl: The user's kubectl.
        items: The objects in the cluster, with their uids.
        timeout: The longest wait in seconds; None not to wait.
    """
    begin = kubectl.runner.clock()
    listed: dict[str, dict[str, str]] = {}
    paths = [_path(kubectl, item, listed) for item in items]
    with workfolder.temporary() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        files = [_options(folder / f"{index}.json", item) for index, item in enumerate(items)]
        list(pool.map(partial(_delete, kubectl), items, paths, files))
    if timeout is None:
        return
    _await_gone(kubectl, lambda left: _not_gone(kubectl, left), items, begin, timeout)


def await_stragglers(kubectl: Kubectl, kind: Workload, workload: Object, *, timeout: float) -> None:
    """Wait until pods no longer exist that the controller created before it noticed the workload's deletion.

    Args:
        kubectl: The user's kubectl.
        kind: The workload's kind.
        workload: The deleted workload, with its uid.
        timeout: The longest wait in seconds.
    """
    selector = kind.selector(workload)
    if selector is None:
        return
    made = partial(_pods_of, kubectl, selector_flag(selector), workload)
    _await_gone(kubectl, lambda _left: made(), [workload], kubectl.runner.clock(), timeout)


def _await_gone(
    kubectl: Kubectl,
    remaining: Callable[[list[Object]], list[Object]],
    items: Sequence[Object],
    begin: float,
    timeout: float,
) -> None:
    """Wait until `remaining`, called with the objects that it returned before, returns no more objects."""
    runner = kubectl.runner
    left, answered_at = list(items), runner.clock()
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
                message = f"{_names(left)}: deletion was requested, but not confirmed: {error}"
                raise ClusterError(message, hint=error.hint) from error
        if not left:
            return
        if runner.clock() - begin >= longest:
            holders = held(kubectl, left)
            why = f": {holders.message}" if holders else ""
            message = f"{_names(left)}: {what} after {timeout:.3g} s{why}"
            raise TimedOutError(message, hint=holders.hint if holders else "run it again to continue waiting")
        runner.sleep(_INTERVAL)


def _names(items: Sequence[Object]) -> str:
    return ", ".join(shown(item) for item in items)


def _pods_of(kubectl: Kubectl, selector: str, workload: Object) -> list[Object]:
    """Return the existing pods of a workload; none if the user may not list pods."""
    try:
        pods = kubectl.items("pods", selector)
    except DeniedError:
        return []
    return [pod for pod in pods if uid(workload) in owners(pod)]


def _not_gone(kubectl: Kubectl, items: list[Object]) -> list[Object]:
    """Return those of `items` that still exist."""
    live_uids = {uid(item) for item in kubectl.items(*(resource(item) for item in items))} if items else set()
    return [item for item in items if uid(item) in live_uids]


def _options(file: Path, item: Object) -> Path:
    """Write options to a file that delete an object only if its uid is unchanged, and return the file."""
    options = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid(item)},
        "propagationPolicy": "Foreground",
    }
    file.write_text(json.dumps(options), encoding="utf-8")
    return file


def _delete(kubectl: Kubectl, item: Object, path: str, options: Path) -> None:
    """Delete one object; a missing one is no error. Raises ClusterError."""
    done = kubectl.request("delete", f"--raw={path}", f"--filename={options}")
    if done.returncode == 0 or NO_OBJECT.search(done.stderr):
        return
    if UID_CHANGED.search(done.stderr):
        raise ClusterError(f"{shown(item)} was replaced by another object of this name, which was kept")
    raise kubectl.unready_or(explained_error(done.stderr))


def _path(kubectl: Kubectl, item: Object, listed: dict[str, dict[str, str]]) -> str:
    """Return the API path of an object; `listed` caches the resource names of each API version by kind."""
    version = item["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if version not in listed:
        resources = (kubectl.raw(root) or {}).get("resources") or ()
        listed[version] = {entry["kind"]: entry["name"] for entry in resources if "/" not in entry["name"]}
    if item["kind"] not in listed[version]:
        raise ClusterError(f"the cluster does not list {item['kind']} in {version}")
    namespace = item["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{listed[version][item['kind']]}/{name(item)}"

"""kubectl get -> Snapshot: reads a workload and its objects in two or three calls. Tests: cluster/test_status.py."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from packager.base.errors import ClusterError, DeniedError, NotServedError, UnreachableError
from packager.diagnosis.obstacles import seems_node_lost
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.objects import Object, created, is_being_deleted, name, owners, status, uid
from packager.kubernetes.snapshot import Queueing, Snapshot
from packager.kubernetes.verdict import Verdict
from packager.workloads import kueue
from packager.workloads.kinds import Workload

Result = TypeVar("Result")
Other = TypeVar("Other")


def observe(kubectl: Kubectl, kind: Workload, name: str, *, events: bool = True) -> Snapshot | None:
    """Return a snapshot of the workload `name`; None when it does not exist.

    What belongs to it is known by its owners: those of a pod may be seen to belong to the workload themselves.
    """
    items, refusal = _workload(kubectl, kind, name)
    workload = next((item for item in items if item["kind"] == kind.name), None)
    if workload is None:
        return None
    children = tuple(item for item in items if item["kind"] != kind.name and uid(workload) in owners(item))
    selector = kind.selector(workload)
    intermediates, unseen = _intermediates(kubectl, kind, workload)
    children += intermediates
    pods = [workload] if selector is None else kubectl.items("pods", selector_flag(selector))
    namespace_events, unseen_events = events_of(kubectl) if events else ((), None)
    owner_uids = {uid(workload), *map(uid, children)}
    # The server's clock and ours may differ, so the age is at least 0.
    age = max(0.0, (kubectl.runner.now() - created(workload)).total_seconds())
    # If the user may not see the owners of the pods, pods are found by their labels only.
    own_pods = tuple(pod for pod in pods if selector is None or unseen or owners(pod) & owner_uids)
    return Snapshot(
        workload,
        children,
        own_pods,
        namespace_events,
        age,
        "; ".join(reason for reason in (refusal, unseen, unseen_events) if reason) or None,
        _namespace(kubectl, kind, workload, own_pods),
        _nodes(kubectl, own_pods),
        queueing=_queueing(kubectl, workload, own_pods),
    )


def if_allowed(read: Callable[[], Result], otherwise: Other) -> Result | Other:
    """Return the result of `read`, or `otherwise` if the cluster refuses to answer. Raises UnreachableError."""
    try:
        return read()
    except UnreachableError:
        raise
    except ClusterError:
        return otherwise


def _queueing(kubectl: Kubectl, workload: Object, pods: Sequence[Object]) -> Queueing | None:
    """Return the objects of Kueue about a workload that it holds; None if it does not, or the user may not see them."""
    queue = kueue.of(workload)
    if queue is None or not kueue.is_held(workload, pods):
        return None

    def read() -> Queueing | None:
        workloads = tuple(kubectl.items("workloads.kueue.x-k8s.io"))
        return Queueing(queue, workloads, kubectl.get(f"localqueues.kueue.x-k8s.io/{queue}"))

    return if_allowed(read, None)


def _workload(kubectl: Kubectl, kind: Workload, name: str) -> tuple[list[Object], str | None]:
    """Return the workload with its children, or only the workload and the refusal if the user may not see these."""
    workload = f"{kind.resource}/{name}"
    children = kind.children(name)
    try:
        return kubectl.items(workload, *children), None
    except NotServedError as error:
        if error.resource == kind.resource and kind.operator:
            error.hint = kind.operator.installation(kubectl.installer)
        raise
    except DeniedError as error:
        if not children:
            raise
        return kubectl.items(workload), str(error)


def _intermediates(kubectl: Kubectl, kind: Workload, workload: Object) -> tuple[tuple[Object, ...], str | None]:
    """Return the objects between the workload and its pods, and the refusal if the user may not see all of them."""
    labels = kind.selector(workload)
    known = {uid(workload)}
    intermediates: list[Object] = []
    for resource in kind.owned if labels else ():
        try:
            items = kubectl.items(resource, selector_flag(labels or {}))
        except DeniedError as error:
            return tuple(intermediates), str(error)
        owned = [item for item in items if owners(item) & known]
        known.update(map(uid, owned))
        intermediates += owned
    return tuple(intermediates), None


def pods_of(kind: Workload, workload: Object) -> str:
    """Return the argument by which `kubectl get pods` finds the pods of a workload."""
    selector = kind.selector(workload)
    return name(workload) if selector is None else selector_flag(selector)


def selector_flag(labels: Mapping[str, str]) -> str:
    """Return kubectl's flag that selects objects by labels."""
    return f"--selector={','.join(f'{key}={value}' for key, value in labels.items())}"


def events_of(kubectl: Kubectl) -> tuple[tuple[Object, ...], str | None]:
    """Return the events of the namespace, or none and the refusal if the user may not list them."""
    try:
        return tuple(kubectl.items("events")), None
    except DeniedError as error:
        return (), str(error)


def _namespace(kubectl: Kubectl, kind: Workload, workload: Object, pods: Sequence[Object]) -> Object | None:
    """Return the namespace if a pod or the workload is being deleted or is missing, and the user may get namespaces."""
    has_begun = bool(status(workload))
    if not any(map(is_being_deleted, (workload, *pods))) and not (has_begun and kind.main(pods) is None):
        return None
    return if_allowed(lambda: kubectl.get(f"namespaces/{workload['metadata'].get('namespace')}"), None)


def absent(kubectl: Kubectl, verdict: Verdict) -> Verdict:
    """Return the verdict on a missing workload, whose summary reports a missing namespace or one being deleted."""
    name = kubectl.default_namespace()
    unseen: Object = {"metadata": {}}
    namespace: Object | None = if_allowed(lambda: kubectl.get(f"namespaces/{name}"), unseen)
    if namespace is None:
        return replace(verdict, summary=f"namespace {name} not found")
    if is_being_deleted(namespace):
        return replace(verdict, summary=f"its namespace {name} is being deleted")
    return verdict


def _nodes(kubectl: Kubectl, pods: Sequence[Object]) -> tuple[Object, ...]:
    """Return the nodes of pods that seem to be lost; none if the user may not get nodes."""
    names = sorted({pod["spec"]["nodeName"] for pod in pods if seems_node_lost(pod) and pod["spec"].get("nodeName")})
    return tuple(if_allowed(lambda: kubectl.items(*(f"nodes/{name}" for name in names)), [])) if names else ()

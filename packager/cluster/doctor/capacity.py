"""Checks whether the pods fit into the quotas of the namespace, and on the nodes. Tests: cli/test_doctor.py."""

from __future__ import annotations

from decimal import Decimal
from shlex import quote
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, UnreachableError
from packager.base.quantity import parse
from packager.cluster.doctor.case import fails, ok, unknown
from packager.cluster.doctor.demand import of_pod, shown, total
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import labels, name, status, true_condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.cluster.doctor.demand import Amounts, Demand
    from packager.cluster.manifests import Manifests
    from packager.kubernetes.objects import Object


_ALIASES = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
_EVERY_POD = {"NotTerminating", "NotBestEffort"}


def quotas(case: Case) -> Iterator[CheckResult]:
    """Check that the quotas of the namespace leave enough for all pods together."""
    all_quotas = case.kubectl.items("resourcequotas")
    requested = {"pods": Decimal(sum(demand.count for demand in case.demands))}
    for part in ("requests", "limits"):
        requested |= {f"{part}.{resource}": amount for resource, amount in total(case.demands, part).items()}
    is_short = False
    for quota in all_quotas:
        scopes = set(listing(quota["spec"].get("scopes")))
        if not scopes <= _EVERY_POD or quota["spec"].get("scopeSelector"):
            continue  # this quota counts other pods
        used = mapping(status(quota).get("used"))
        for key, hard in mapping(status(quota).get("hard")).items():
            needed = requested.get(_ALIASES.get(key, key))
            if needed is None:
                continue
            left = parse(str(hard)) - parse(str(used.get(key, "0")))
            if needed > left:
                is_short = True
                rest = f"{shown(left) if left > 0 else 'nothing'} of {hard} is left"
                message = f"{name(quota)}: {key}: the workload asks for {shown(needed)}, and {rest}"
                yield fails(
                    "quota", message, f"kubectl describe resourcequota {quote(name(quota))} {case.namespace_flag}"
                )
    if not is_short:
        yield ok(
            "quota", f"{len(all_quotas)} in the namespace, with enough left" if all_quotas else "none in the namespace"
        )


def nodes(case: Case) -> Iterator[CheckResult]:
    """Check that all pods fit on the nodes at the same time, beside the pods that already run."""
    all_nodes = case.kubectl.items("nodes")
    try:
        running = case.kubectl.items("pods", "--all-namespaces", "--field-selector=status.phase!=Succeeded")
    except UnreachableError:
        raise
    except ClusterError:
        running = None
    taken = [pod for pod in running or () if status(pod).get("phase") != "Failed" and not _is_own_pod(pod, case)]
    empty = [_Room(node, ()) for node in all_nodes]
    now = [_Room(node, [pod for pod in taken if pod["spec"].get("nodeName") == name(node)]) for node in all_nodes]
    needed = ", ".join(
        f"{demand.count} {demand.name}{'s' if demand.count != 1 else ''} of {_shown_amounts(demand.requests)}"
        for demand in case.demands
    )
    count = f"{len(all_nodes)} node{'s' if len(all_nodes) != 1 else ''}"
    if unplaced := _first_unplaced(case.demands, empty):
        why = _reasons(unplaced, empty)
        yield fails(
            "nodes", f"even with nothing else running, no node could run {unplaced.name}: {why}", "kubectl get nodes"
        )
    elif running is None:
        message = f"{count} could take {needed}; you are not allowed to see what runs on them"
        yield unknown("nodes", message, "kubectl auth can-i list pods -A")
    elif unplaced := _first_unplaced(case.demands, now):
        message = f"not enough free resources for {needed}: the {unplaced.name} would wait: {_reasons(unplaced, now)}"
        yield fails("nodes", message, "kubectl describe nodes")
    else:
        yield ok("nodes", f"room for {needed}, on {count}")


class _Room:
    """The free resources of a node, while pods are placed on it."""

    def __init__(self, node: Object, pods: Any) -> None:
        self.node = node
        self.left: Amounts = {key: parse(str(amount)) for key, amount in status(node)["allocatable"].items()}
        for pod in pods:
            self.take({**of_pod(pod["spec"], "requests"), "pods": Decimal(1)})

    def take(self, amounts: Amounts) -> None:
        for key, amount in amounts.items():
            self.left[key] = self.left.get(key, Decimal(0)) - amount

    def reason_against(self, demand: Demand) -> str | None:
        """Return the reason why a pod does not fit on the node; None if it fits."""
        spec = self.node["spec"]
        if not true_condition(self.node, "Ready"):
            return "not ready"
        if spec.get("unschedulable"):
            return "cordoned"
        if label := _missing_label(self.node, demand):
            return f"no label {label}"
        for taint in listing(spec.get("taints")):
            if taint["effect"] != "PreferNoSchedule" and not _tolerates(demand.spec, taint):
                return f"taint {taint['key']} not tolerated"
        for key, amount in {**demand.requests, "pods": Decimal(1)}.items():
            left = self.left.get(key, Decimal(0))
            if amount > left:
                return f"{shown(max(left, Decimal(0)))} {key} left, {shown(amount)} requested"
        return None


def _first_unplaced(demands: tuple[Demand, ...], rooms: list[_Room]) -> Demand | None:
    """Place every pod, the largest first, on the fullest node that fits; return the first demand that does not fit."""
    trial = [_copy_of(room) for room in rooms]
    for demand in sorted(demands, key=lambda demand: demand.requests.get("cpu", Decimal(0)), reverse=True):
        spreads = [_Spread(constraint, demand, trial) for constraint in _strict_spreads(demand)]
        for _ in range(demand.count):
            fitting = [
                room
                for room in trial
                if room.reason_against(demand) is None and all(spread.takes(room.node) for spread in spreads)
            ]
            if not fitting:
                return demand
            fullest = min(fitting, key=lambda room: room.left.get("cpu", Decimal(0)))
            fullest.take({**demand.requests, "pods": Decimal(1)})
            for spread in spreads:
                spread.add(fullest.node)
    return None


class _Spread:
    """The number of matching pods in each domain of a spread constraint, such as each host or zone.

    Only domains of nodes that match the pods' node selector count (nodeAffinityPolicy: Honor, the default).
    """

    def __init__(self, constraint: Mapping[str, Any], demand: Demand, rooms: list[_Room]) -> None:
        self._key = constraint["topologyKey"]
        self._skew = int(constraint["maxSkew"])
        self._pods = {
            labels(room.node)[self._key]: 0
            for room in rooms
            if self._key in labels(room.node) and not _missing_label(room.node, demand)
        }

    def takes(self, node: Object) -> bool:
        """Whether one more pod may be scheduled to the node; never to a node without the label."""
        domain = labels(node).get(self._key)
        return domain in self._pods and self._pods[domain] + 1 - min(self._pods.values()) <= self._skew

    def add(self, node: Object) -> None:
        self._pods[labels(node)[self._key]] += 1


def _missing_label(node: Object, demand: Demand) -> str | None:
    """Return the first label of the pods' node selector that the node lacks; None if it has all."""
    selected = mapping(demand.spec.get("nodeSelector")).items()
    return next((f"{key}={value}" for key, value in selected if labels(node).get(key) != str(value)), None)


def _strict_spreads(demand: Demand) -> list[Mapping[str, Any]]:
    constraints = [mapping(item) for item in listing(demand.spec.get("topologySpreadConstraints"))]
    return [constraint for constraint in constraints if constraint.get("whenUnsatisfiable") == "DoNotSchedule"]


def _copy_of(room: _Room) -> _Room:
    copy = _Room(room.node, ())
    copy.left = dict(room.left)
    return copy


def _reasons(demand: Demand, rooms: list[_Room]) -> str:
    if not rooms:
        return "there are no nodes"
    reasons: dict[str, list[str]] = {}
    for room in rooms:
        reason = (
            room.reason_against(demand)
            or _missing_spread_label(demand, room)
            or f"room for some of the {demand.count}, not for all"
        )
        reasons.setdefault(reason, []).append(name(room.node))
    parts = [
        f"{node_names[0] if len(node_names) == 1 else f'{len(node_names)} nodes'}: {reason}"
        for reason, node_names in reasons.items()
    ]
    return "; ".join(parts[:3]) + (f"; and {len(parts) - 3} more reasons" if len(parts) > 3 else "")


def _missing_spread_label(demand: Demand, room: _Room) -> str | None:
    for constraint in _strict_spreads(demand):
        key = constraint["topologyKey"]
        if key not in labels(room.node):
            return f"no label {key}, over which the pods must be spread"
    return None


def _tolerates(spec: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    for toleration in listing(spec.get("tolerations")):
        key, operator = toleration.get("key"), toleration.get("operator", "Equal")
        same_value = operator == "Exists" or toleration.get("value", "") == taint.get("value", "")
        if (not key or key == taint["key"]) and same_value and toleration.get("effect") in (None, "", taint["effect"]):
            return True
    return False


def _is_own_pod(pod: Object, case: Case) -> bool:
    """Whether the pod belongs to an earlier run of one of the workloads, which the next run replaces."""
    is_here = pod["metadata"]["namespace"] == case.namespace
    return is_here and any(_is_pod_of(pod, one) for one in case.manifests.per_workload)


def _is_pod_of(pod: Object, manifests: Manifests) -> bool:
    selector = manifests.kind.selector(manifests.workload)
    return name(pod) == manifests.name if selector is None else selector.items() <= labels(pod).items()


def _shown_amounts(amounts: Amounts) -> str:
    return " and ".join(f"{shown(amount)} {key}" for key, amount in sorted(amounts.items())) or "no size"

"""Is there room: in the namespace's quotas, and on the nodes?"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from packager.cluster.doctor.case import fails, ok, unknown
from packager.cluster.doctor.demand import of_pod, shown, total
from packager.cluster.objects import holds, labels, name, status
from packager.errors import ClusterError, UnreachableError
from packager.quantity import parse
from packager.verify.overlay import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.cluster.doctor.case import Case, Finding
    from packager.cluster.doctor.demand import Amounts, Demand
    from packager.cluster.objects import Object

_SHORT = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
_EVERY_POD = {"NotTerminating", "NotBestEffort"}


def quotas(case: Case) -> Iterator[Finding]:
    """The quotas of the namespace leave enough for all pods together."""
    found = case.kubectl.items("resourcequotas")
    asked = {"pods": Decimal(sum(demand.count for demand in case.demands))}
    for part in ("requests", "limits"):
        asked |= {f"{part}.{resource}": amount for resource, amount in total(case.demands, part).items()}
    short = False
    for quota in found:
        scopes = set(listing(quota["spec"].get("scopes")))
        if not scopes <= _EVERY_POD or quota["spec"].get("scopeSelector"):
            continue  # it counts pods of another sort
        used = mapping(status(quota).get("used"))
        for key, hard in mapping(status(quota).get("hard")).items():
            wanted = asked.get(_SHORT.get(key, key))
            if wanted is None:
                continue
            left = parse(str(hard)) - parse(str(used.get(key, "0")))
            if wanted > left:
                short = True
                there = f"{shown(left)} of {hard} is left" if left > 0 else f"nothing of {hard} is left"
                message = f"{name(quota)}: {key}: the workload asks for {shown(wanted)}, and {there}"
                yield fails("quota", message, f"kubectl describe resourcequota {name(quota)} {case.here}")
    if not short:
        yield ok("quota", f"{len(found)} in the namespace, with enough left" if found else "none in the namespace")


def nodes(case: Case) -> Iterator[Finding]:
    """The nodes can take all pods at once: whichever way, beside what runs there already."""
    found = case.kubectl.items("nodes")
    try:
        running = case.kubectl.items("pods", "--all-namespaces", "--field-selector=status.phase!=Succeeded")
    except UnreachableError:
        raise
    except ClusterError:
        running = None
    ours = _selector(case)
    taken = [pod for pod in running or () if status(pod).get("phase") != "Failed" and not _is_ours(pod, case, ours)]
    empty = [_Room(node, ()) for node in found]
    now = [_Room(node, [pod for pod in taken if pod["spec"].get("nodeName") == name(node)]) for node in found]
    needed = ", ".join(
        f"{demand.count} {demand.name}{'s' if demand.count != 1 else ''} of {_listed(demand.requests)}"
        for demand in case.demands
    )
    count = f"{len(found)} node{'s' if len(found) != 1 else ''}"
    if homeless := _place(case.demands, empty):
        why = _why(homeless, empty)
        yield fails(
            "nodes", f"even if nothing else ran, no node could take {homeless.name}: {why}", "kubectl get nodes"
        )
    elif running is None:
        message = f"{count} could take {needed}; what runs on them may not be read"
        yield unknown("nodes", message, "kubectl auth can-i list pods -A")
    elif homeless := _place(case.demands, now):
        message = f"no room now for {needed}: the {homeless.name} would wait: {_why(homeless, now)}"
        yield fails("nodes", message, "kubectl describe nodes")
    else:
        yield ok("nodes", f"room for {needed}, on {count}")


class _Room:
    """What a node has left, while pods are placed on it."""

    def __init__(self, node: Object, pods: Any) -> None:
        self.node = node
        self.left: Amounts = {key: parse(str(amount)) for key, amount in status(node)["allocatable"].items()}
        for pod in pods:
            self.take({**of_pod(pod["spec"], "requests"), "pods": Decimal(1)})

    def take(self, amounts: Amounts) -> None:
        for key, amount in amounts.items():
            self.left[key] = self.left.get(key, Decimal(0)) - amount

    def lacks(self, demand: Demand) -> str | None:
        """Return why the node cannot take a pod; None when it can."""
        spec = self.node["spec"]
        if not holds(self.node, "Ready"):
            return "not ready"
        if spec.get("unschedulable"):
            return "cordoned"
        if label := _unselected(self.node, demand):
            return f"not labelled {label}"
        for taint in listing(spec.get("taints")):
            if taint["effect"] != "PreferNoSchedule" and not _tolerates(demand.spec, taint):
                return f"tainted {taint['key']}"
        for key, amount in {**demand.requests, "pods": Decimal(1)}.items():
            left = self.left.get(key, Decimal(0))
            if amount > left:
                return f"{shown(max(left, Decimal(0)))} {key} left, {shown(amount)} asked for"
        return None


def _place(demands: tuple[Demand, ...], rooms: list[_Room]) -> Demand | None:
    """Place every pod, the largest first, on the fullest node that takes it; return one that finds no place."""
    trial = [_copy(room) for room in rooms]
    for demand in sorted(demands, key=lambda each: each.requests.get("cpu", Decimal(0)), reverse=True):
        spreads = [_Spread(constraint, demand, trial) for constraint in _strict_spreads(demand)]
        for _ in range(demand.count):
            fitting = [
                room
                for room in trial
                if room.lacks(demand) is None and all(spread.takes(room.node) for spread in spreads)
            ]
            if not fitting:
                return demand
            fullest = min(fitting, key=lambda room: room.left.get("cpu", Decimal(0)))
            fullest.take({**demand.requests, "pods": Decimal(1)})
            for spread in spreads:
                spread.add(fullest.node)
    return None


class _Spread:
    """How many of the pods that are alike stand in each domain of a spread constraint: on each host, in each zone.

    Domains are those of the nodes that the pods' node selector leaves (nodeAffinityPolicy: Honor, the default).
    """

    def __init__(self, constraint: Mapping[str, Any], demand: Demand, rooms: list[_Room]) -> None:
        self._key = constraint["topologyKey"]
        self._skew = int(constraint["maxSkew"])
        self._pods = {
            labels(room.node)[self._key]: 0
            for room in rooms
            if self._key in labels(room.node) and not _unselected(room.node, demand)
        }

    def takes(self, node: Object) -> bool:
        """Whether one more pod may stand on the node; one without the label is in no domain, and takes none."""
        domain = labels(node).get(self._key)
        return domain in self._pods and self._pods[domain] + 1 - min(self._pods.values()) <= self._skew

    def add(self, node: Object) -> None:
        self._pods[labels(node)[self._key]] += 1


def _unselected(node: Object, demand: Demand) -> str | None:
    """Return a label that the pods' node selector wants and the node has not; None when it has all."""
    wanted = mapping(demand.spec.get("nodeSelector")).items()
    return next((f"{key}={value}" for key, value in wanted if labels(node).get(key) != str(value)), None)


def _strict_spreads(demand: Demand) -> list[Mapping[str, Any]]:
    constraints = [mapping(each) for each in listing(demand.spec.get("topologySpreadConstraints"))]
    return [each for each in constraints if each.get("whenUnsatisfiable") == "DoNotSchedule"]


def _copy(room: _Room) -> _Room:
    twin = _Room(room.node, ())
    twin.left = dict(room.left)
    return twin


def _why(demand: Demand, rooms: list[_Room]) -> str:
    if not rooms:
        return "there are no nodes"
    reasons: dict[str, list[str]] = {}
    for room in rooms:
        reason = room.lacks(demand) or _unspread(demand, room) or f"room for some of the {demand.count}, not for all"
        reasons.setdefault(reason, []).append(name(room.node))
    parts = [f"{where[0] if len(where) == 1 else f'{len(where)} nodes'}: {reason}" for reason, where in reasons.items()]
    return "; ".join(parts[:3]) + (f"; and {len(parts) - 3} more reasons" if len(parts) > 3 else "")


def _unspread(demand: Demand, room: _Room) -> str | None:
    for constraint in _strict_spreads(demand):
        key = constraint["topologyKey"]
        if key not in labels(room.node):
            return f"not labelled {key}, by which they must spread"
    return None


def _tolerates(spec: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    for each in listing(spec.get("tolerations")):
        key, operator = each.get("key"), each.get("operator", "Equal")
        same_value = operator == "Exists" or each.get("value", "") == taint.get("value", "")
        if (not key or key == taint["key"]) and same_value and each.get("effect") in (None, "", taint["effect"]):
            return True
    return False


def _selector(case: Case) -> tuple[str, str] | None:
    selector = case.manifests.engine.selector(case.manifests.name)
    if selector is None:
        return None
    key, _, value = selector.partition("=")
    return key, value


def _is_ours(pod: Object, case: Case, selector: tuple[str, str] | None) -> bool:
    """Whether the pod is of an earlier run of the same workload, which the next one takes the place of."""
    if pod["metadata"]["namespace"] != case.namespace:
        return False
    return name(pod) == case.manifests.name if selector is None else labels(pod).get(selector[0]) == selector[1]


def _listed(amounts: Amounts) -> str:
    return " and ".join(f"{shown(amount)} {key}" for key, amount in sorted(amounts.items())) or "no size"

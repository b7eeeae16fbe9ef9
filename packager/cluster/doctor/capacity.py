"""Checks whether the pods fit into the quotas of the namespace, and on the nodes. Tests: cli/test_doctor.py."""

from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from shlex import quote

from packager.base.units import parse_quantity
from packager.cluster.doctor.case import Case, CheckResult, fails, ok, unknown
from packager.cluster.doctor.demand import Amounts, Demand, of_pod, shown
from packager.cluster.observe import if_allowed
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import Object, labels, name, status, true_condition

_ALIASES = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
_EVERY_POD = {"NotTerminating", "NotBestEffort"}


def quotas(case: Case) -> Iterator[CheckResult]:
    """Check that the quotas of the namespace leave enough for all pods together."""
    all_quotas = case.kubectl.items("resourcequotas")
    requested: dict[str, Decimal] = {"pods": Decimal(sum(demand.count for demand in case.demands))}
    for demand in case.demands:
        for part, amounts in (("requests", demand.requests), ("limits", demand.limits)):
            for resource, amount in amounts.items():
                requested[f"{part}.{resource}"] = (
                    requested.get(f"{part}.{resource}", Decimal(0)) + demand.count * amount
                )
    is_short = False
    for quota in all_quotas:
        scopes = set(listing(quota["spec"].get("scopes")))
        if not scopes <= _EVERY_POD or quota["spec"].get("scopeSelector"):
            continue  # this quota counts other pods
        used = mapping(status(quota).get("used"))
        for key, hard in mapping(status(quota).get("hard")).items():
            needed = Decimal(requested[_ALIASES.get(key, key)])
            left = parse_quantity(str(hard)) - parse_quantity(str(used.get(key, "0")))
            if needed and needed > left:
                is_short = True
                rest = f"{shown(left) if left > 0 else 'nothing'} of {hard} is left"
                message = f"{name(quota)}: {key}: the workload asks for {shown(needed)}, and {rest}"
                fix = f"kubectl describe resourcequota {quote(name(quota))} {case.namespace_flag}"
                yield fails("quota", message, fix)
    if not is_short:
        count = len(all_quotas)
        yield ok("quota", f"{count} in the namespace, with enough left" if count else "none in the namespace")


def nodes(case: Case) -> Iterator[CheckResult]:
    """Check that all pods fit on the nodes at the same time, beside the pods that already run."""
    all_nodes = case.kubectl.items("nodes")
    flags = ("--all-namespaces", "--field-selector=status.phase!=Succeeded")
    running = if_allowed(lambda: case.kubectl.items("pods", *flags), None)
    taken = [pod for pod in running or () if status(pod).get("phase") != "Failed" and not _is_own_pod(pod, case)]
    free = [_Room(node, [pod for pod in taken if pod["spec"].get("nodeName") == name(node)]) for node in all_nodes]
    empty = [_Room(node, ()) for node in all_nodes]
    needed = ", ".join(
        f"{demand.count} {demand.name}{'s' if demand.count != 1 else ''} of {_shown_amounts(demand.requests)}"
        for demand in case.demands
    )
    count = f"{len(all_nodes)} node{'s' if len(all_nodes) != 1 else ''}"
    if unplaced := _first_unplaced(case.demands, empty):
        message = f"even with nothing else running, no node could run {unplaced[0].name}: {unplaced[1]}"
        yield fails("nodes", message, "kubectl get nodes")
    elif running is None:
        message = f"{count} could take {needed}; you are not allowed to see what runs on them"
        yield unknown("nodes", message, "kubectl auth can-i list pods -A")
    elif unplaced := _first_unplaced(case.demands, free):
        message = f"not enough free resources for {needed}: the {unplaced[0].name} would wait: {unplaced[1]}"
        yield fails("nodes", message, "kubectl describe nodes")
    else:
        yield ok("nodes", f"room for {needed}, on {count}")


class _Room:
    """The free resources of a node, while pods are placed on it."""

    def __init__(self, node: Object, pods: Iterable[Object]) -> None:
        self.node = node
        self.left: Amounts = {key: parse_quantity(str(amount)) for key, amount in status(node)["allocatable"].items()}
        for pod in pods:
            self.take(of_pod(pod["spec"], "requests"))

    def take(self, requests: Amounts) -> None:
        for key, amount in {**requests, "pods": Decimal(1)}.items():
            self.left[key] = self.left.get(key, Decimal(0)) - amount

    def reason_against(self, demand: Demand) -> str | None:
        """Return the reason why a pod does not fit on the node; None if it fits."""
        spec = self.node["spec"]
        if not true_condition(self.node, "Ready"):
            return "not ready"
        if spec.get("unschedulable"):
            return "cordoned"
        for key, value in mapping(demand.spec.get("nodeSelector")).items():
            if labels(self.node).get(key) != str(value):
                return f"no label {key}={value}"
        for taint in map(mapping, listing(spec.get("taints"))):
            tolerations = map(mapping, listing(demand.spec.get("tolerations")))
            if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(one, taint) for one in tolerations):
                return f"taint {taint['key']} not tolerated"
        for key, amount in {**demand.requests, "pods": Decimal(1)}.items():
            left = self.left.get(key, Decimal(0))
            if amount > left:
                return f"{shown(max(left, Decimal(0)))} {key} left, {shown(amount)} requested"
        return None


def _tolerates(toleration: Object, taint: Object) -> bool:
    is_same = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    is_about = toleration.get("key") in (None, "", taint["key"])
    return is_about and is_same and toleration.get("effect") in (None, "", taint["effect"])


def _first_unplaced(demands: tuple[Demand, ...], rooms: list[_Room]) -> tuple[Demand, str] | None:
    """Place every pod, the largest first, on the fullest node; return the first that does not fit, and the reasons."""
    before = [dict(room.left) for room in rooms]
    for demand in sorted(demands, key=lambda demand: demand.requests.get("cpu", Decimal(0)), reverse=True):
        for _ in range(demand.count):
            fitting = [room for room in rooms if room.reason_against(demand) is None]
            if not fitting:
                for room, left in zip(rooms, before, strict=True):
                    room.left = left
                return demand, _reasons(demand, rooms)
            min(fitting, key=lambda room: room.left.get("cpu", Decimal(0))).take(demand.requests)
    return None


def _reasons(demand: Demand, rooms: list[_Room]) -> str:
    if not rooms:
        return "there are no nodes"
    some = f"room for some of the {demand.count}, not for all"
    counts = Counter((room.reason_against(demand) or some) for room in rooms)
    names = {room.reason_against(demand) or some: name(room.node) for room in rooms}
    parts = [f"{names[why] if count == 1 else f'{count} nodes'}: {why}" for why, count in counts.items()]
    return "; ".join(parts[:3]) + (f"; and {len(parts) - 3} more reasons" if len(parts) > 3 else "")


def _is_own_pod(pod: Object, case: Case) -> bool:
    """Whether the pod belongs to an earlier run of one of the workloads, which the next run replaces."""
    for one in case.target.manifests.per_workload if pod["metadata"]["namespace"] == case.namespace else ():
        selector = one.kind.selector(one.workload)
        if name(pod) == one.name if selector is None else selector.items() <= labels(pod).items():
            return True
    return False


def _shown_amounts(amounts: Amounts) -> str:
    return " and ".join(f"{shown(amount)} {key}" for key, amount in sorted(amounts.items())) or "no size"

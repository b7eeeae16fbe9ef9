"""Checks whether the pods fit into the quotas of the namespace, and on the nodes. Tests: cli/test_doctor.py."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from shlex import quote

from packager.base.units import parse_quantity
from packager.cluster.doctor.case import Case, CheckResult, fails, ok, unknown
from packager.cluster.doctor.demand import Amounts, Demand, of_pod, shown
from packager.cluster.observe import if_allowed
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import Object, labels, name, status, true_condition

_ALIASES = {"cpu": "requests.cpu", "memory": "requests.memory", "count/pods": "pods"}
_MOST_REASONS = 3
_EVERY_POD = {"NotTerminating", "NotBestEffort"}


def quotas(case: Case) -> Iterator[CheckResult]:
    """Check that the quotas of the namespace leave enough for all pods together."""
    all_quotas = case.kubectl.items("resourcequotas")
    requested: Amounts = {"pods": Decimal(sum(demand.count for demand in case.demands))}
    for demand in case.demands:
        for part, amounts in (("requests", demand.requests), ("limits", demand.limits)):
            for key, amount in amounts.items():
                requested[f"{part}.{key}"] = requested.get(f"{part}.{key}", Decimal(0)) + demand.count * amount
    is_short = False
    for quota in all_quotas:
        scopes = set(listing(quota["spec"].get("scopes")))
        if not scopes <= _EVERY_POD or quota["spec"].get("scopeSelector"):
            continue  # this quota counts other pods
        used = mapping(status(quota).get("used"))
        for key, hard in mapping(status(quota).get("hard")).items():
            needed = requested.get(_ALIASES.get(key, key), Decimal(0))
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
    needed = ", ".join(
        f"{demand.count} {demand.name}{'s' if demand.count != 1 else ''} of {_shown_amounts(demand.requests)}"
        for demand in case.demands
    )
    count = f"{len(all_nodes)} node{'s' if len(all_nodes) != 1 else ''}"
    if unplaced := _unplaced(case.demands, all_nodes, ()):
        message = f"even with nothing else running, no node could run {unplaced}"
        yield fails("nodes", message, "kubectl get nodes")
    elif running is None:
        message = f"{count} could take {needed}; you are not allowed to see what runs on them"
        yield unknown("nodes", message, "kubectl auth can-i list pods -A")
    elif unplaced := _unplaced(case.demands, all_nodes, taken):
        message = f"not enough free resources for {needed}: no room for {unplaced}"
        yield fails("nodes", message, "kubectl describe nodes")
    else:
        yield ok("nodes", f"room for {needed}, on {count}")


def _unplaced(demands: Sequence[Demand], nodes: Sequence[Object], pods: Sequence[Object]) -> str | None:
    """Place every pod, the largest first, on the fullest node beside `pods`; return the first without room, and why."""
    rooms: list[tuple[Object, Amounts]] = []
    for node in nodes:
        left = {key: parse_quantity(str(amount)) for key, amount in status(node)["allocatable"].items()}
        for pod in pods:
            if pod["spec"].get("nodeName") == name(node):
                _take(left, of_pod(pod["spec"], "requests"))
        rooms.append((node, left))
    for demand in sorted(demands, key=lambda demand: demand.requests.get("cpu", Decimal(0)), reverse=True):
        for number in range(demand.count):
            fitting = [left for node, left in rooms if _reason_against(demand, node, left) is None]
            if not fitting:
                which = demand.name if demand.count == 1 else f"{demand.name} {number + 1} of {demand.count}"
                reasons = [f"{name(node)}: {_reason_against(demand, node, left)}" for node, left in rooms]
                more = f"; and {len(reasons) - _MOST_REASONS} more nodes" if len(reasons) > _MOST_REASONS else ""
                return f"{which}: {'; '.join(reasons[:_MOST_REASONS]) or 'there are no nodes'}{more}"
            _take(min(fitting, key=lambda left: left.get("cpu", Decimal(0))), demand.requests)
    return None


def _take(left: Amounts, requests: Amounts) -> None:
    for key, amount in {**requests, "pods": Decimal(1)}.items():
        left[key] = left.get(key, Decimal(0)) - amount


def _reason_against(demand: Demand, node: Object, left: Amounts) -> str | None:
    """Return the reason why a pod does not fit on a node, of which this is left; None if it fits."""
    if not true_condition(node, "Ready"):
        return "not ready"
    if node["spec"].get("unschedulable"):
        return "cordoned"
    for key, value in mapping(demand.spec.get("nodeSelector")).items():
        if labels(node).get(key) != str(value):
            return f"no label {key}={value}"
    for taint in map(mapping, listing(node["spec"].get("taints"))):
        tolerations = map(mapping, listing(demand.spec.get("tolerations")))
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(one, taint) for one in tolerations):
            return f"taint {taint['key']} not tolerated"
    for key, amount in {**demand.requests, "pods": Decimal(1)}.items():
        if amount > left.get(key, Decimal(0)):
            return f"{shown(max(left.get(key, Decimal(0)), Decimal(0)))} {key} left, {shown(amount)} requested"
    return None


def _tolerates(toleration: Object, taint: Object) -> bool:
    is_same = toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
    is_about = toleration.get("key") in (None, "", taint["key"])
    return is_about and is_same and toleration.get("effect") in (None, "", taint["effect"])


def _is_own_pod(pod: Object, case: Case) -> bool:
    """Whether the pod belongs to an earlier run of one of the workloads, which the next run replaces."""
    for one in case.target.manifests.per_workload if pod["metadata"]["namespace"] == case.namespace else ():
        selector = one.kind.selector(one.workload)
        if name(pod) == one.name if selector is None else selector.items() <= labels(pod).items():
            return True
    return False


def _shown_amounts(amounts: Amounts) -> str:
    return " and ".join(f"{shown(amount)} {key}" for key, amount in sorted(amounts.items())) or "no size"

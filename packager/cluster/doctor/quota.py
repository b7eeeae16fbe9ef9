"""Checks whether the pods fit into the quotas of the namespace. Tests: cli/test_doctor.py."""

from __future__ import annotations

from decimal import Decimal
from shlex import quote
from typing import TYPE_CHECKING

from packager.base.quantity import parse
from packager.cluster.doctor.case import fails, ok
from packager.cluster.doctor.demand import shown, total
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import name, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult

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

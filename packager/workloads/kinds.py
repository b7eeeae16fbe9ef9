"""Lists the kinds of workload in a cluster, and the operators that they need. Tests: cluster/test_operator.py."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from packager.workloads import of_each_kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.workloads.workload import Operator, Workload


@cache
def kinds() -> Mapping[str, Workload]:
    """Return the Workload of each kind, by kind."""
    return of_each_kind("life")


def operators() -> dict[str, Operator]:
    """Return the operators that workloads need, by the name that `mlpack operator` takes."""
    needed = [kind.operator for kind in kinds().values() if kind.operator]
    return {operator.short: operator for operator in needed}

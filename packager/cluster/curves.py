"""Reads the curves of a deployed workload from the logs of its pods. Tests: cluster/test_status.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.cluster.logreader import LogReader
from packager.diagnosis.curves.figure import number
from packager.diagnosis.curves.points import added, lines_of
from packager.diagnosis.curves.terminal import drawn
from packager.kubernetes.objects import name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packager.cluster.target import Target
    from packager.diagnosis.curves.points import Curve

__all__ = ["MOST_PODS", "as_json", "curves", "drawn", "number"]

MOST_PODS = 8
"""The maximum number of pods whose logs are read, the main one first."""


def curves(target: Target) -> tuple[Curve, ...]:
    """Return the curves in the logs of the workload's main containers; none while it does not exist.

    Raises:
        ClusterError: The cluster does not answer, or refuses to return a log.
    """
    snapshot = target.observe(events=False)
    result: dict[tuple[str, str], Curve] = {}
    for pod in target.manifests.kind.listed(snapshot.pods)[:MOST_PODS] if snapshot else ():
        result = added(result, name(pod), lines_of(LogReader(target.kubectl, pod).read(pod)))
    return tuple(result.values())


def as_json(curves: Iterable[Curve]) -> list[dict[str, Any]]:
    """Return curves for `-o json`: name, pod, points, last point, lowest and highest value, number of points."""
    return [
        {
            "name": curve.name,
            "pod": curve.pod,
            "points": [list(point) for point in curve.drawn],
            "last": list(curve.last) if curve.last else None,
            "lowest": curve.lowest,
            "highest": curve.highest,
            "count": curve.count,
        }
        for curve in curves
    ]

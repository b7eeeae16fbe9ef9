"""Can the nodes get the images?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.cluster.doctor.case import fails, ok, unknown
from packager.cluster.objects import status
from packager.errors import ClusterError, UnreachableError
from packager.verify.overlay import listing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.cluster.doctor.case import Case, Finding
    from packager.cluster.objects import Object

_REPORTED = 50
"""A node reports no more of its images than this, the largest first (kubelet, nodeStatusMaxImages)."""


def images(case: Case) -> Iterator[Finding]:
    """Each image is on the nodes, or named by a registry that they may pull it from; nothing is pulled to find out."""
    nodes, refused = _nodes(case)
    for image in dict.fromkeys(each for demand in case.demands for each in _images(demand.spec)):
        registry = image.partition("/")[0]
        on = [node for node in nodes if image in _names(node)]
        if on:
            yield ok("image", f"{image} is on {len(on)} of {len(nodes)} node{'s' if len(nodes) != 1 else ''}")
        elif registry != "localhost":
            yield ok("image", f"{image} is to be pulled from {registry}, which was not tried")
        elif refused or any(len(listing(status(node).get("images"))) >= _REPORTED for node in nodes):
            yield unknown("image", f"{image} names no registry, and the nodes do not tell whether they have it")
        else:
            message = f"{image} is on no node, and names no registry to pull it from"
            yield fails("image", message, f"mlpack configure {case.source} --registry HOST")


def _nodes(case: Case) -> tuple[list[Object], bool]:
    """Return the nodes, and whether the user may not look at them."""
    try:
        return case.kubectl.items("nodes"), False
    except UnreachableError:
        raise
    except ClusterError:
        return [], True


def _images(spec: Mapping[str, Any]) -> Iterator[str]:
    for container in [*listing(spec.get("initContainers")), *listing(spec.get("containers"))]:
        yield str(container.get("image"))


def _names(node: Object) -> set[str]:
    return {name for image in listing(status(node).get("images")) for name in listing(image.get("names"))}

"""Checks whether the nodes can get the images. Tests: cli/test_doctor.py."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from packager.base.errors import ClusterError, UnreachableError
from packager.base.paths import argument
from packager.cluster.doctor.case import fails, ok, unknown
from packager.kubernetes.manifest import listing
from packager.kubernetes.objects import status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.objects import Object

_REPORTED = 50
"""The largest number of images that a node reports, the largest images first (kubelet, nodeStatusMaxImages)."""


def images(case: Case) -> Iterator[CheckResult]:
    """Check that each image is on a node or has a registry to pull it from; no image is pulled."""
    nodes, refused = _nodes(case)
    for image in dict.fromkeys(name for demand in case.demands for name in _images(demand.spec)):
        registry = image.partition("/")[0]
        holders = [node for node in nodes if image in _names(node)]
        if holders:
            yield ok("image", f"{image} is on {len(holders)} of {len(nodes)} node{'s' if len(nodes) != 1 else ''}")
        elif registry != "localhost":
            yield ok("image", f"{image} is to be pulled from {registry}, which was not tested")
        elif refused or any(len(listing(status(node).get("images"))) >= _REPORTED for node in nodes):
            yield unknown("image", f"{image} has no registry, and the nodes do not report whether they have it")
        else:
            message = f"{image} is on no node and has no registry to pull it from"
            yield fails("image", message, f"mlpack configure {quote(argument(Path(case.source)))} --registry HOST")


def _nodes(case: Case) -> tuple[list[Object], bool]:
    """Return the nodes, and whether the user is not allowed to list them."""
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

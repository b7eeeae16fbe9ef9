"""Checks whether the nodes can mount images as volumes, for the options package-volume and weights.

Sources: KEP-4639 (on by default from Kubernetes 1.35, generally available from 1.36); containerd, whose
internal/cri/server/container_image_mount.go mounts images from 2.1 on, and a folder of one from 2.2 on; the releases of
CRI-O.
"""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from packager.base.paths import argument
from packager.cluster.doctor.case import fails, note, ok, unknown
from packager.kubernetes.manifest import listing, mapping
from packager.kubernetes.objects import name, status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.objects import Object
    from packager.rendering.overlay import RenderedOverlay

_GATED, _SERVED = (1, 31), (1, 35)
"""The kubelets that mount images: with a feature gate, and always."""

_RUNTIMES = {"containerd": ((2, 1), (2, 2)), "cri-o": ((1, 31), (1, 33))}
"""The first version of each runtime that mounts images, and the first that mounts a folder of one."""

_OPTIONS = {True: "package-volume", False: "weights"}
"""The option whose volume is a folder of an image, and the one whose volume is a whole image."""

_SHOWN = 3


def image_volumes(case: Case) -> Iterator[CheckResult]:
    """Check that kubelet and runtime of the nodes are new enough, if the pods mount images."""
    parts = set(_mounts(case))
    if not parts:
        return
    has_part = True in parts
    nodes = case.kubectl.items("nodes")
    reasons = {name(node): _reason(node, has_part=has_part) for node in nodes}
    unable = {node: reason for node, reason in reasons.items() if reason}
    listed = "; ".join(f"{node} has {reason}" for node, reason in list(unable.items())[:_SHOWN])
    more = f"; and {len(unable) - _SHOWN} more" if len(unable) > _SHOWN else ""
    uncertain = [node for node in nodes if not reasons[name(node)] and (_is_gated(node) or _runtime(node) is None)]
    off = " ".join(f"--without {_OPTIONS[part]}" for part in sorted(parts, reverse=True))
    without = f"mlpack configure {quote(argument(Path(case.source)))} {off}"
    if nodes and len(unable) == len(nodes):
        yield fails("volumes", f"no node can mount images as volumes: {listed}{more}", without)
    elif unable:
        message = f"{len(unable)} of {len(nodes)} nodes cannot mount images as volumes: {listed}{more}"
        yield note(
            "volumes", f"{message}: keep the pods off them with the option placement", "kubectl get nodes -o wide"
        )
    elif uncertain:
        node = uncertain[0]
        message = f"{name(node)} has {_versions(node)}, which may not mount images as volumes"
        gate = ": its feature gate ImageVolume has to be on" if _is_gated(node) else ""
        yield unknown("volumes", f"{message}{gate}", "kubectl get nodes -o wide")
    else:
        yield ok("volumes", f"the nodes can mount images as volumes: {', '.join(dict.fromkeys(map(_versions, nodes)))}")


def _mounts(case: Case) -> Iterator[bool]:
    """Yield, for each image that pods mount, whether it is a folder of the image."""
    for pods in case.overlay.pods:
        names = {volume.get("name") for _, volume in pods.volumes() if volume.get("image")}
        for _, container in pods.containers():
            mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
            yield from (bool(mount.get("subPath")) for mount in mounts if mount.get("name") in names)


def mounted_packages(overlay: RenderedOverlay) -> tuple[str, ...]:
    """Return the images of which the pods mount a folder, as the option package-volume does, and weights does not."""
    mounted = set()
    for pods in overlay.pods:
        images = {volume.get("name"): mapping(volume["image"]) for _, volume in pods.volumes() if volume.get("image")}
        for _, container in pods.containers():
            mounts = [mapping(mount) for mount in listing(container.get("volumeMounts"))]
            folders = [mount.get("name") for mount in mounts if mount.get("subPath")]
            mounted |= {str(images[volume].get("reference")) for volume in folders if volume in images}
    return tuple(sorted(mounted))


def _info(node: Object) -> tuple[str, str]:
    info = mapping(status(node).get("nodeInfo"))
    return str(info.get("kubeletVersion", "")), str(info.get("containerRuntimeVersion", ""))


def _versions(node: Object) -> str:
    kubelet, runtime = _info(node)
    return f"kubelet {kubelet or 'of an unknown version'} and {runtime.replace('://', ' ') or 'an unknown runtime'}"


def _is_gated(node: Object) -> bool:
    version = _number(_info(node)[0])
    return version is None or version < _SERVED


def _runtime(node: Object) -> tuple[tuple[int, int], str] | None:
    """Return the version and the name of a node's runtime; None if it is not known here."""
    runtime, _, version = _info(node)[1].partition("://")
    number = _number(version)
    return None if runtime not in _RUNTIMES or number is None else (number, runtime)


def _reason(node: Object, *, has_part: bool) -> str | None:
    """Return the version for which a node cannot mount images; None if it can, or is not known."""
    kubelet = _number(_info(node)[0])
    if kubelet is not None and kubelet < _GATED:
        return f"kubelet {_info(node)[0]}, and 1.36 is needed"
    if runtime := _runtime(node):
        number, program = runtime
        least = _RUNTIMES[program][has_part]
        if number < least:
            return f"{_info(node)[1].replace('://', ' ')}, and {least[0]}.{least[1]} is needed"
    return None


def _number(version: str) -> tuple[int, int] | None:
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})", version)
    return (int(match[1]), int(match[2])) if match else None

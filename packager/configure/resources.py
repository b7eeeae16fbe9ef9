"""Sets the memory and the CPUs of pods for which the spec names none: in a component of their overlay.

kustomize fills a value of mlops.env into a field that is there, and adds no field. The component is like a site's own
one, so verify shows it as an edit, and upgrade keeps it.

Tests: configure/test_amounts.py.
"""

from __future__ import annotations

import json
import posixpath
from typing import TYPE_CHECKING

from packager.base import quantity, yamlio
from packager.base.errors import UsageError
from packager.configure import settings
from packager.kubernetes.manifest import at, listing, mapping
from packager.package import kustomization, layout
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from packager.configure.settings import Files
    from packager.workloads.pods import Pods

_PREFIX = "resources-"

_HEAD = """\
# The memory and the CPUs of each pod of {overlay} that computes: reserved, and the most that it may use.
# `mlpack configure --memory` and `--cpu` write this file, because the spec has no such resources.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
"""


def path(overlay: str) -> str:
    """Return the path of the component of an overlay."""
    return f"{layout.ADDED}/{_PREFIX}{overlay}/{layout.KUSTOMIZATION}"


def assign(files: Files, overlay: str, name: str, value: str) -> bool:
    """Set a resource of the pods that compute; return False, and change nothing, if the package sets it for one."""
    pods = list(_pods(files, overlay))
    if not pods or any(name in _resources(entry) for entry in pods):
        return False
    _check(name, value)
    place, listed = path(overlay), layout.kustomization(overlay)
    before = files.changed().get(place) or files.before(place) or b""
    files.write(place, _content(overlay, pods, {**read(before), name: value}))
    folder = posixpath.relpath(posixpath.dirname(place), layout.overlay(overlay))
    shown = files.package.shown(listed)
    text = kustomization.switch(files.read(listed), f"{_PREFIX}{overlay}", shown, on=True)
    files.write(listed, kustomization.add(text, folder, shown))
    return True


def read(content: bytes) -> dict[str, str]:
    """Return the resources that a component sets, by name; none of a file that is no such component."""
    return {posixpath.basename(str(entry.get("path"))): str(entry.get("value")) for entry in _operations(content)}


def without(content: bytes, names: Collection[str]) -> bytes:
    """Return a component that does not set these resources."""
    lines = content.decode(errors="surrogateescape").split("\n")
    endings = tuple(f"/resources/limits/{name}," for name in names)
    kept = [line for line in lines if not any(ending in line for ending in endings)]
    text = "\n".join(kept).encode(errors="surrogateescape")
    if _operations(text):
        return text
    head = text.partition(b"patches:")[0]
    return head + b"patches: []\n"


def _pods(files: Files, overlay: str) -> Iterator[Pods]:
    for workload in settings.workloads(files, overlay):
        yield from (entry for entry in structures.pods(workload) if entry.computes)


def _resources(pods: Pods) -> set[str]:
    """Return the names of the resources that the main container of pods requests, or has a limit for."""
    values = mapping(at(pods.spec, ("containers", 0, "resources")))
    return {*mapping(values.get("requests")), *mapping(values.get("limits"))}


def _check(name: str, value: str) -> None:
    try:
        is_positive = quantity.parse(value) > 0
    except ValueError:
        is_positive = False
    if not is_positive:
        example = "64Gi" if name == "memory" else "8"
        raise UsageError(f"--{name} {value}: expected a quantity such as {example}")


def _content(overlay: str, pods: list[Pods], values: Mapping[str, str]) -> bytes:
    """Return the component; a limit without a request is the request as well (Kubernetes, container resources)."""
    lines = []
    targets: dict[str, list[str]] = {}
    for entry in pods:
        target = f"{{kind: {entry.manifest.kind}, name: {json.dumps(entry.manifest.name)}}}"
        for name, value in values.items():
            place = f"{entry.pointer}/containers/0/resources/limits/{name}"
            targets.setdefault(target, []).append(f"      - {{op: add, path: {place}, value: {json.dumps(value)}}}\n")
    for target, operations in targets.items():
        lines += [f"  - target: {target}\n    patch: |-\n", *operations]
    return (_HEAD.format(overlay=overlay) + "".join(lines)).encode()


def _operations(content: bytes) -> list[Mapping[str, object]]:
    document, _ = yamlio.load(content, layout.KUSTOMIZATION)
    texts = [mapping(entry).get("patch") for entry in listing(mapping(document.data).get("patches"))]
    loaded = [yamlio.load(str(text).encode(), layout.KUSTOMIZATION)[0].data for text in texts]
    return [mapping(entry) for entries in loaded for entry in listing(entries)]

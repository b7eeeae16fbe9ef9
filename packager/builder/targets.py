"""Determines which workloads an option changes and where their pods are, for the templates of options.

An option's component is one for all overlays of a package, and before an overlay adds its suffix all workloads of a
kind have the same name. So where two overlays of one kind have their pods at different places, each workload carries a
label with its overlay's name, and the option changes each by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.values import Value
from packager.kubernetes.manifest import Manifest, mapping
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.builder.plan import PlannedOverlay
    from packager.workloads.pods import Pods

_LABEL = "mlpack/overlay"


class OptionTarget(Value, frozen=True):
    """Workloads of one kind that have their pods at the same places."""

    kind: str  # their kind
    pods: tuple[Pods, ...]  # the pods of one of them
    overlay: str | None = None  # the overlay of the only one; None where these are all workloads of the kind
    serves: bool = False  # whether they serve

    @property
    def has_gpus(self) -> bool:
        """Whether the spec gives them GPUs, which an option may replace."""
        return any(pods.gpus for pods in self.pods)

    @property
    def selector(self) -> str | None:
        """The label selector of the workload; None if the kind selects it."""
        return f"{_LABEL}={self.overlay}" if self.overlay else None


def pods_in(text: str, kind: str) -> tuple[Pods, ...]:
    """Return the pods of the workloads of `kind` among the manifests in `text`."""
    documents, _ = yamlio.load_all(text.encode(), "")
    workloads = [Manifest(mapping(document.data)) for document in documents]
    return tuple(pods for manifest in workloads if manifest.kind == kind for pods in structures.pods(manifest))


def targets(overlays: Sequence[PlannedOverlay], pods: Mapping[str, tuple[Pods, ...]]) -> Iterator[OptionTarget]:
    """Yield the workloads that the options of a package with these overlays change."""
    for kind in dict.fromkeys(overlay.values.kind for overlay in overlays):
        names = [overlay.name for overlay in overlays if overlay.values.kind == kind]
        serves = any(overlay.values.serves for overlay in overlays if overlay.values.kind == kind)
        if len({tuple(map(_place, pods[name])) for name in names}) == 1:
            yield OptionTarget(kind, pods[names[0]], serves=serves)
        else:
            yield from (OptionTarget(kind, pods[name], name, serves) for name in names)


def _place(pods: Pods) -> tuple[object, ...]:
    """Return everything about pods that a patch depends on."""
    return (
        pods.pointer,
        pods.field_path,
        pods.container,
        pods.computes,
        pods.stores,
        pods.labels,
        pods.workload_label,
        pods.port,
        pods.processes,
        pods.prepares,
        pods.has_code,
        pods.starts_torchrun,
        pods.gpus,
    )

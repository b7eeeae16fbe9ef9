"""Decides, without rendering, whether folders of results outlive pods. Tests: configure/test_agreement.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.kubernetes.manifest import Manifest, mapping
from packager.rendering.origins import Operations, Written
from packager.workloads import structures
from packager.workloads.kinds import kinds
from packager.workloads.pods import EPHEMERAL, LASTING, writes_to_claim

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.rendering.sources import Sources

FOLDERS = {"OUTPUT_DIR": "output", "CHECKPOINT_DIR": "checkpoint"}
"""The keys of mlops.env that are folders of results, and the volume that a build mounts at each."""


def lost_folders(sources: Sources) -> tuple[str, ...]:
    """Return the keys of FOLDERS whose volumes are deleted with the pods; none if the pods write to a claim, or serve.

    A volume lasts if a manifest, or a patch of any component that is on, gives it a source that lasts.
    """
    documents = [origin.document.data for origin in sources.origins if isinstance(origin, Written | Operations)]
    manifests = [Manifest(mapping(document)) for document in documents]
    if any(writes_to_claim(pods.spec) for manifest in manifests for pods in structures.pods(manifest)):
        return ()
    serving = {kind for kind, workload in kinds().items() if workload.serves}
    ending = [manifest.data for manifest in manifests if manifest.kind not in serving]
    scratch = set(_volumes(ending, EPHEMERAL))
    lasting = set(_volumes(documents, LASTING))
    return tuple(key for key, name in FOLDERS.items() if name in scratch - lasting)


def _volumes(data: Any, volume_sources: frozenset[str]) -> Iterator[str]:
    """Yield the name of each volume for a folder of results that has one of these sources."""
    remaining = [data]
    while remaining:
        value = remaining.pop()
        if isinstance(value, dict):
            name = value.get("name")
            if name in FOLDERS.values() and value.keys() & volume_sources:
                yield str(name)
            remaining.extend(value.values())
        elif isinstance(value, list):
            remaining.extend(value)

"""Finds workloads and code that edits have added to a package since it was sealed. Tests: verify/test_edits.py.

An overlay may contain as many workloads as it was built with. A workload that an edit adds would run code that was not
sealed, and so would a file that an edit changes in a ConfigMap: the program, or a module that shadows one of Python's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.allowed.words import permits
from packager.kubernetes.manifest import listing, mapping
from packager.verify.objects import KIND, allow_word, is_allowed, permits_hint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.original import Original


CODE = "code"
"""The kind of the problems with files that an edit changes."""


def check(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each workload that an edit adds.

    Args:
        overlay: An overlay of the package, with its edits.
        original: The overlay without its edits.
        allowed: The kinds that the user allows.

    Raises:
        ToolError: A file cannot be read, or there is no room for a copy.
    """
    workloads = _workloads(overlay, allowed)
    if len(workloads) < 2 or original.edits.are_expected:
        return
    # If the original does not render, the additions cannot be found; a build makes one workload.
    sealed = _workloads(original.permitted, allowed) if original.permitted else workloads[:1]
    known = {_identity(manifest) for manifest in sealed}
    others = [manifest for manifest in workloads if _identity(manifest) not in known]
    for manifest in others[max(len(sealed) - (len(workloads) - len(others)), 0) :]:
        message = f"an edit adds this workload: the package was sealed with {', '.join(map(str, sealed)) or 'none'}"
        word = allow_word(manifest)
        yield overlay.problem(manifest, ("kind",), message, permits_hint(word)).about(KIND, word)


def _workloads(overlay: RenderedOverlay, allowed: frozenset[str]) -> list[Manifest]:
    """Return the manifests that make pods, except those of a kind that the user allows."""
    makers = {id(pods.manifest): pods.manifest for pods in overlay.pods}
    return [manifest for manifest in makers.values() if not is_allowed(manifest, allowed)]


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest.group, manifest.kind, manifest.name


def code(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each file of a mounted ConfigMap that an edit changes or adds; see `check` for the arguments.

    Files are compared by their names and contents, since an edit may rename the ConfigMaps.
    """
    if original.edits.are_expected:
        return
    sealed = original.permitted
    sealed_files = {(key, value) for _, _, key, value in _files(sealed)} if sealed else set()
    for manifest, part, key, value in _files(overlay):
        word = f"configmap.{part}"
        if (key, value) not in sealed_files and not permits(allowed, word):
            message = "an edit changes or adds this file, which programs may run"
            yield overlay.problem(manifest, (part, key), message, permits_hint(word), at_key=True).about(CODE, word)


def _files(overlay: RenderedOverlay) -> Iterator[tuple[Manifest, str, str, str]]:
    """Yield each file of the ConfigMaps that pods mount: the ConfigMap, `data` or `binaryData`, the key and the value.

    What containers also get as variables is left out: users change the values, and `environment` judges the names.
    """
    names: dict[str, None] = {}
    variables = set()
    for pods in overlay.pods:
        for _, volume in pods.volumes():
            sources = [volume, *map(mapping, listing(mapping(volume.get("projected")).get("sources")))]
            names |= dict.fromkeys(str(mapping(source.get("configMap")).get("name")) for source in sources)
        for _, container in pods.containers():
            sources = list(map(mapping, listing(container.get("envFrom"))))
            variables |= {str(mapping(source.get("configMapRef")).get("name")) for source in sources}
    for name in names:
        if (manifest := overlay.named("ConfigMap", name)) is None:
            continue
        for part in ("binaryData",) if name in variables else ("data", "binaryData"):
            for key, value in mapping(manifest.data.get(part)).items():
                yield manifest, part, str(key), str(value)

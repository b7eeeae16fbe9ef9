"""Finds workloads and code that edits have added to a package since it was sealed. Tests: verify/test_edits.py.

An overlay may contain as many workloads as it was built with. A workload that an edit adds would run code that was not
sealed, and so would a file that an edit changes in a ConfigMap: the program, or a module that shadows one of Python's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value
from packager.kubernetes.allowed.words import permits
from packager.kubernetes.manifest import at, listing, mapping
from packager.verify.objects import KIND, allow_word, is_allowed, permits_hint
from packager.verify.taken import CONFIG_MAP as MAP
from packager.verify.taken import fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Original


CODE = "code"
"""The kind of the problems with files that an edit changes."""


def check(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each workload that an edit adds."""
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

    Files are compared by their keys, paths and contents, since an edit may rename the ConfigMaps.
    """
    if original.edits.are_expected:
        return
    sealed = original.permitted
    sealed_files = {file.identity for file in _files(sealed)} if sealed else set()
    for file in _files(overlay):
        word = f"configmap.{file.part}"
        if file.identity not in sealed_files and not permits(allowed, word):
            message = "an edit changes or adds this file, which programs may run"
            problem = overlay.problem(file.manifest, file.location, message, permits_hint(word), at_key=not file.path)
            yield problem.about(CODE, word)


class _File(Value, frozen=True):
    """A file of a ConfigMap that pods mount."""

    manifest: Manifest  # the ConfigMap, or the workload that gives the file another path
    location: Location  # in the manifest
    part: str  # of the ConfigMap: `data` or `binaryData`
    key: str
    path: str  # in the volume if it is not the key; else empty
    value: str  # the content; empty for a value that users change

    @property
    def identity(self) -> tuple[str, str, str]:
        """The values by which files are compared."""
        return self.key, self.path, self.value


def _files(overlay: RenderedOverlay) -> Iterator[_File]:
    """Yield each file of the ConfigMaps that pods mount, and each other path at which a volume has it.

    Of those that containers also get as variables, only the other paths are compared: users change the values, and
    `environment` judges the names.
    """
    uses = [(pods.manifest, name, place) for pods in overlay.pods for noun, name, place in fields(pods) if noun == MAP]
    variables = {name for _, name, place in uses if place[-2] == "configMapRef"}
    mounted = [(workload, name, place[:-1]) for workload, name, place in uses if place[-2] == "configMap"]
    for name in dict.fromkeys(name for _, name, _ in mounted):
        if (manifest := overlay.named("ConfigMap", name)) is not None:
            for part in ("binaryData",) if name in variables else ("data", "binaryData"):
                for key, value in mapping(manifest.data.get(part)).items():
                    yield _File(manifest, (part, key), part, str(key), "", str(value))
    for workload, name, place in mounted:
        if (manifest := overlay.named("ConfigMap", name)) is None:
            continue
        texts, binaries = (mapping(manifest.data.get(part)) for part in ("data", "binaryData"))
        for index, item in enumerate(map(mapping, listing(at(workload.data, (*place, "items"))))):
            key, path = str(item.get("key")), str(item.get("path"))
            part, files = ("data", texts) if key in texts else ("binaryData", binaries)
            value = "" if part == "data" and name in variables else str(files.get(key))
            if path != key:
                yield _File(workload, (*place, "items", index, "path"), part, key, path, value)

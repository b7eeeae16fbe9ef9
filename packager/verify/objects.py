"""Checks that a package creates only objects of kinds that a build makes, in the namespace that it is applied to.

Every other object is a finding, unless the user allows its kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.problems import Problem
from packager.base.values import Value
from packager.kubernetes.allowed import words
from packager.kubernetes.manifest import mapping
from packager.verify import options
from packager.workloads.structures import companions, faults, structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay

KIND, NAME = "kind", "name"
"""The kinds of the problems with objects that no build makes, and with the names of objects."""

MADE = frozenset(
    (
        *((structure.api, kind) for kind, structure in structures().items()),
        ("v1", "ConfigMap"),
        ("v1", "PersistentVolumeClaim"),
        *(pair for structure in structures().values() for pair in structure.companion_kinds),
    )
)
"""The apiVersion and kind of every object that a build makes."""

_ALONE = MADE - {pair for structure in structures().values() for pair in structure.companion_kinds}
"""The members of MADE that a build makes whatever the kinds of the overlay's workloads are."""


class Made(Value, frozen=True):
    """An object that an overlay makes; `namespace` is empty for the namespace that the package is applied to."""

    overlay: str
    api: str
    kind: str
    name: str
    namespace: str


def made(overlay: RenderedOverlay) -> Iterator[Made]:
    """Yield every object that the overlay makes, in kubectl's order."""
    for manifest in overlay.manifests:
        namespace = str(mapping(manifest.data.get("metadata")).get("namespace") or "")
        yield Made(overlay.name, manifest.api, manifest.kind, manifest.name, namespace)


def check(overlay: RenderedOverlay, allowed: frozenset[str], namespace: str | None = None) -> Iterator[Problem]:
    """Yield a finding for every object that no build makes.

    Args:
        overlay: A rendered overlay.
        allowed: The kinds and names that the user allows; other findings about their objects are still reported.
        namespace: The namespace that objects may name; None if they may name none.
    """
    for manifest in overlay.manifests:
        if not is_allowed(manifest, allowed):
            yield from _kind(overlay, manifest)
            named = mapping(manifest.data.get("metadata")).get("namespace")
            if named not in (None, namespace):
                message = f"names the namespace {named!r}: a package runs in the namespace that it is applied to"
                yield _unmade(overlay, manifest, ("metadata", "namespace"), message)
        yield from _name(overlay, manifest, allowed)
        if manifest.data.get("status") is not None:
            message = "a package must not set this field: the cluster does"
            yield overlay.problem(manifest, ("status",), message, at_key=True)
    is_empty = not overlay.pods and overlay.claim is None
    if is_empty and not any(is_allowed(manifest, allowed) for manifest in overlay.manifests):
        yield Problem(*overlay.sources.start, "the overlay has no workload: nothing would run")


def is_allowed(manifest: Manifest, allowed: frozenset[str]) -> bool:
    """Whether the user allows the kind of `manifest`, as `Kind` or as `Kind.group`."""
    return manifest.kind in allowed or f"{manifest.kind}.{manifest.group}" in allowed


def _kind(overlay: RenderedOverlay, manifest: Manifest) -> Iterator[Problem]:
    api, kind = manifest.api, manifest.kind
    if workloads := companions(manifest, overlay.manifests):
        if not any(workload.name == manifest.name for workload in workloads):
            message = f"a build creates one {kind}, with the name of {workloads[0]}"
            yield _unmade(overlay, manifest, ("metadata", "name"), message)
        return
    if (api, kind) in _ALONE:
        return
    of_api = f" of {api or 'no apiVersion'}" if any(kind == known for _, known in _ALONE) else ""
    message = f"no build creates a {kind or 'manifest without a kind'}{of_api}"
    yield _unmade(overlay, manifest, ("kind",), message)


def allow_word(manifest: Manifest) -> str:
    """Return the word of `--allow` that permits the kind of `manifest`; empty if the kind is not a valid word."""
    word = f"{manifest.kind}.{manifest.group}" if manifest.group else manifest.kind
    return word if words.is_kind(word) else ""


def permits_hint(word: str) -> str | None:
    """Return the hint that a word of `--allow` permits something; None for an empty word."""
    return f"--allow {word} permits it" if word else None


def _unmade(overlay: RenderedOverlay, manifest: Manifest, location: Location, message: str) -> Problem:
    """Return a finding about an object, which `--allow` with the object's kind permits."""
    word = allow_word(manifest)
    return overlay.problem(manifest, location, message, permits_hint(word)).about(KIND, word)


def _name(overlay: RenderedOverlay, manifest: Manifest, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for a name that is not the package's: an object that has it already may belong to others.

    `kubectl apply` would overwrite that object, pods would read it, and `kubectl delete` would delete it.
    """
    name, package = manifest.name, overlay.sources.declared.name
    claims = options.claims(overlay.sources) if manifest.kind == "PersistentVolumeClaim" else ()
    permitted = (word.removeprefix(words.NAME) for word in allowed if word.startswith(words.NAME))
    if not (name and package) or any(f"{name}-".startswith(f"{own}-") for own in (package, *claims, *permitted)):
        return
    before, is_inside, _ = name.partition(package)
    word = f"{words.NAME}{before}{package}" if before and is_inside else f"{words.NAME}{name}"
    hint = permits_hint(word if words.is_word(word) else "")
    message = f"{name!r} may be an object of others: expected {package!r}, or a name that begins with it and a dash"
    yield overlay.problem(manifest, ("metadata", "name"), message, hint).about(NAME, word)


def check_kinds(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each value of a workload with which its pods would fail or wait."""
    for manifest in overlay.manifests:
        for fault in faults(manifest):
            yield overlay.problem(manifest, fault.location, fault.message, fault.hint, at_key=fault.at_key)


def check_workspace(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each object of the overlay `workspace` that is not a claim, and if its own one is missing."""
    if overlay.claim is None:
        return
    for manifest in overlay.manifests:
        if (manifest.api, manifest.kind) != ("v1", "PersistentVolumeClaim"):
            yield overlay.problem(manifest, ("kind",), "this overlay creates claims, and nothing else", at_key=True)
    if overlay.named("PersistentVolumeClaim", overlay.claim) is None:
        message = f"this overlay does not create the claim {overlay.claim!r}, which the package was sealed with"
        yield Problem(*overlay.sources.start, message)

"""Checks the variables of containers, in ConfigMaps and in edits. Tests: verify/test_edits.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.kubernetes.allowed import words
from packager.kubernetes.containers import BUILT, refusal_reason
from packager.kubernetes.manifest import listing, mapping, text
from packager.verify.objects import permits_hint
from packager.workloads.program import CHOICE, choices, wrong_choice
from packager.workloads.structures import reserved

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Original
    from packager.workloads.pods import Pods


KIND = "variable"
"""The kind of the problems with variables that an edit adds."""


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each variable that no package may set, and for each choice of a script that pods lack."""
    uses: dict[str, list[tuple[Pods, set[str]]]] = {}  # of each ConfigMap: pods, and what they take from Secrets beside
    for pods in overlay.pods:
        for location, container in pods.containers():
            from_secrets = set()
            for index, variable in enumerate(map(mapping, listing(container.get("env")))):
                key = text(variable.get("name"))
                if "secretKeyRef" in mapping(variable.get("valueFrom")):
                    from_secrets.add(key)
                for message in () if key in BUILT else _messages(key, ()):  # kinds set variables of their own here
                    yield overlay.problem(pods.manifest, (*location, "env", index, "name"), f"{key}: {message}")
            for _, config in _config_maps(overlay, container):
                uses.setdefault(config.name, []).append((pods, from_secrets))
    for name, pairs in uses.items():
        if (manifest := overlay.named("ConfigMap", name)) is not None:
            yield from _of_config_map(overlay, manifest, pairs)


def _of_config_map(
    overlay: RenderedOverlay, manifest: Manifest, uses: Sequence[tuple[Pods, set[str]]]
) -> Iterator[Problem]:
    workloads = {str(pods.manifest): pods.manifest for pods, _ in uses}
    secrets = {key for _, from_secrets in uses for key in from_secrets}
    scripts = next(filter(None, (choices(pods) for pods, _ in uses)), ())
    for key, value in mapping(manifest.data.get("data")).items():
        here = ("data", key)
        for message in _messages(str(key), workloads.values()):
            yield overlay.problem(manifest, here, message, at_key=True)
        if key in secrets:
            message = f"{key} is a secret: pods read it from a Secret, and anyone can read this file"
            yield overlay.problem(manifest, here, message, "remove this line", at_key=True)
        if key == CHOICE and scripts and value not in scripts:
            yield overlay.problem(manifest, here, *wrong_choice(str(value), scripts))


def added(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each variable that an edit adds: many programs run commands from a variable."""
    if original.edits.are_expected:
        return
    known = {name for name, _, _ in _all_variables(original.permitted)} if original.permitted else set()
    for name, manifest, location in _all_variables(overlay):
        is_reported = name not in BUILT and refusal_reason(name) is not None
        variable = words.variable(name)
        word = variable if words.is_word(variable) else ""  # nothing permits a variable of another name
        if name not in known and variable not in allowed and not is_reported:
            message = "an edit adds this variable, and programs may run what it says"
            yield overlay.problem(manifest, location, message, permits_hint(word), at_key=True).about(KIND, word)


def _all_variables(overlay: RenderedOverlay) -> Iterator[tuple[str, Manifest, Location]]:
    for pods in overlay.pods:
        for location, container in pods.containers():
            yield from variables(overlay, pods, location, container)


def variables(
    overlay: RenderedOverlay, pods: Pods, location: Location, container: dict[str, Any]
) -> Iterator[tuple[str, Manifest, Location]]:
    """Yield each variable that a container gets from the package, and where it is set."""
    for index, variable in enumerate(listing(container.get("env"))):
        yield text(mapping(variable).get("name")), pods.manifest, (*location, "env", index, "name")
    for prefix, manifest in _config_maps(overlay, container):
        for key in mapping(manifest.data.get("data")):
            yield f"{prefix}{key}", manifest, ("data", key)


def _config_maps(overlay: RenderedOverlay, container: dict[str, Any]) -> Iterator[tuple[str, Manifest]]:
    """Yield each ConfigMap of the overlay whose keys become variables of a container, and the prefix of these."""
    for source in map(mapping, listing(container.get("envFrom"))):
        manifest = overlay.named("ConfigMap", mapping(source.get("configMapRef")).get("name"))
        if manifest is not None:
            yield text(source.get("prefix")), manifest


def _messages(key: str, readers: Iterable[Manifest]) -> Iterator[str]:
    """Yield each reason why `key` cannot be set: in any package, or for a workload that reads it."""
    if reason := refusal_reason(key):
        yield f"it cannot be set in a package: {reason}"
    for workload in readers:
        if reason := reserved(workload, key):
            yield f"it cannot be set for {workload}: {reason}"

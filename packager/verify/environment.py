"""Checks the variables of containers, in ConfigMaps and in edits. Tests: verify/test_edits.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.kubernetes.allowed import words
from packager.kubernetes.environment import BUILT, refusal_reason
from packager.kubernetes.manifest import listing, mapping, text
from packager.verify.objects import permits_hint
from packager.workloads.program import CHOICE, choices, wrong_choice
from packager.workloads.structures import reserved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.original import Original


KIND = "variable"
"""The kind of the problems with variables that an edit adds."""


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for every variable that no package may set."""
    sources = [
        (str(mapping(source.get("configMapRef")).get("name")), pods.manifest)
        for pods in overlay.pods
        for _, container in pods.containers()
        for source in map(mapping, listing(container.get("envFrom")))
    ]
    secrets = _secrets(overlay)
    workloads: dict[str, list[Manifest]] = {}
    for name, workload in sources:
        known = workloads.setdefault(name, [])
        if workload not in known:
            known.append(workload)
    yield from _choices(overlay)
    yield from _of_containers(overlay)
    for name, readers in workloads.items():
        if (manifest := overlay.named("ConfigMap", name)) is None:
            continue
        for key in map(str, mapping(manifest.data.get("data"))):
            for message in _messages(key, readers):
                yield overlay.problem(manifest, ("data", key), message, at_key=True)
            if (name, key) in secrets:
                message = f"{key} is a secret: pods read it from a Secret, and anyone can read this file"
                yield overlay.problem(manifest, ("data", key), message, "remove this line", at_key=True)


def added(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each variable that an edit adds: many programs run commands from a variable."""
    if original.edits.are_expected:
        return
    known = {name for name, _, _ in _variables(original.permitted)} if original.permitted else set()
    for name, manifest, location in _variables(overlay):
        is_reported = name not in BUILT and refusal_reason(name) is not None
        variable = words.variable(name)
        word = variable if words.is_word(variable) else ""  # nothing permits a variable of another name
        if name not in known and variable not in allowed and not is_reported:
            message = "an edit adds this variable, and programs may run what it says"
            yield overlay.problem(manifest, location, message, permits_hint(word), at_key=True).about(KIND, word)


def _variables(overlay: RenderedOverlay) -> Iterator[tuple[str, Manifest, Location]]:
    """Yield each variable that a container gets from the package, and where it is set."""
    for pods in overlay.pods:
        for location, container in pods.containers():
            for index, variable in enumerate(listing(container.get("env"))):
                yield text(mapping(variable).get("name")), pods.manifest, (*location, "env", index, "name")
            for source in map(mapping, listing(container.get("envFrom"))):
                prefix = text(source.get("prefix"))
                manifest = overlay.named("ConfigMap", mapping(source.get("configMapRef")).get("name"))
                if manifest is not None:
                    for key in mapping(manifest.data.get("data")):
                        yield f"{prefix}{key}", manifest, ("data", key)


def _secrets(overlay: RenderedOverlay) -> set[tuple[str, str]]:
    """Return each variable that a container gets from a Secret, with each ConfigMap that the container also reads."""
    pairs = set()
    for pods in overlay.pods:
        for _, container in pods.containers():
            from_secrets = [
                str(variable.get("name"))
                for variable in map(mapping, listing(container.get("env")))
                if "secretKeyRef" in mapping(variable.get("valueFrom"))
            ]
            for source in map(mapping, listing(container.get("envFrom"))):
                name = str(mapping(source.get("configMapRef")).get("name"))
                pairs |= {(name, key) for key in from_secrets}
    return pairs


def _of_containers(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each variable in the manifest of a container that only builds may set, or nothing may."""
    for pods in overlay.pods:
        for location, container in pods.containers():
            for index, variable in enumerate(listing(container.get("env"))):
                key = text(mapping(variable).get("name"))
                for message in () if key in BUILT else _messages(key, []):  # kinds set variables of their own here
                    yield overlay.problem(pods.manifest, (*location, "env", index, "name"), f"{key}: {message}")


def _choices(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each ConfigMap that chooses a script that its pods do not have."""
    seen: set[str] = set()
    for pods in overlay.pods:
        scripts = choices(pods)
        sources = [source for _, container in pods.containers() for source in listing(container.get("envFrom"))]
        for source in sources if scripts else ():
            name = str(mapping(mapping(source).get("configMapRef")).get("name"))
            manifest = overlay.named("ConfigMap", name)
            value = mapping(manifest.data.get("data")).get(CHOICE) if manifest else None
            if manifest is not None and value is not None and value not in scripts and name not in seen:
                seen.add(name)
                yield overlay.problem(manifest, ("data", CHOICE), *wrong_choice(str(value), scripts))


def _messages(key: str, readers: Sequence[Manifest]) -> Iterator[str]:
    """Yield each reason why `key` cannot be set: in any package, or for a workload that reads it."""
    if reason := refusal_reason(key):
        yield f"it cannot be set in a package: {reason}"
    for workload in readers:
        if reason := reserved(workload, key):
            yield f"it cannot be set for {workload}: {reason}"

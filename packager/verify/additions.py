"""Finds what edits have added to a package since it was sealed, and variables that none may set.

An overlay may contain as many workloads as it was built with. A workload that an edit adds would run code that was not
sealed. So would a file that an edit changes in a ConfigMap, the program or a module that shadows one of Python's, and
many programs run commands from a variable. Tests: verify/test_edits.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.kubernetes.allowed import words
from packager.kubernetes.containers import BUILT, refusal_reason
from packager.kubernetes.manifest import at, listing, mapping, text
from packager.verify import objects, taken
from packager.verify.objects import permits_hint
from packager.workloads.program import CHOICE, choices, wrong_choice
from packager.workloads.structures import reserved

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Original
    from packager.workloads.pods import Pods

VARIABLE, CODE = "variable", "code"
"""The kinds of the problems with variables that an edit adds, and with files that it changes."""

_Use = tuple["Pods", set[str]]
"""Pods whose container has the variables of a ConfigMap, and the variables that it takes from Secrets."""


def check(overlay: RenderedOverlay, original: Original, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for each variable, workload, and file of a mounted ConfigMap that an edit adds or changes.

    If the original does not render, nothing in it is known; a build makes one workload.
    """
    if original.edits.are_expected:
        return
    sealed = original.permitted
    yield from _workloads(overlay, sealed, allowed)
    names = {name for name, _, _ in _all_variables(sealed)} if sealed else set()
    for name, manifest, location in _all_variables(overlay):
        is_reported = name not in BUILT and refusal_reason(name) is not None
        variable = words.variable(name)
        word = variable if words.is_word(variable) else ""  # nothing permits a variable of another name
        if name not in names and variable not in allowed and not is_reported:
            message = "an edit adds this variable, and programs may run what it says"
            yield overlay.problem(manifest, location, message, permits_hint(word), at_key=True).about(VARIABLE, word)
    files = {identity for _, _, _, identity in _files(sealed)} if sealed else set()
    for manifest, location, part, identity in _files(overlay):
        word = f"configmap.{part}"
        if identity not in files and not words.permits(allowed, word):
            message, is_path = "an edit changes or adds this file, which programs may run", location[-1] == "path"
            problem = overlay.problem(manifest, location, message, permits_hint(word), at_key=not is_path)
            yield problem.about(CODE, word)


def _workloads(
    overlay: RenderedOverlay, original: RenderedOverlay | None, allowed: frozenset[str]
) -> Iterator[Problem]:
    present = _makers(overlay, allowed)
    sealed = _makers(original, allowed) if original else present[:1]
    known = {(manifest.group, manifest.kind, manifest.name) for manifest in sealed}
    others = [manifest for manifest in present if (manifest.group, manifest.kind, manifest.name) not in known]
    for manifest in others[max(len(sealed) - (len(present) - len(others)), 0) :]:
        message = f"an edit adds this workload: the package was sealed with {', '.join(map(str, sealed)) or 'none'}"
        word = objects.allow_word(manifest)
        yield overlay.problem(manifest, ("kind",), message, permits_hint(word)).about(objects.KIND, word)


def _makers(overlay: RenderedOverlay, allowed: frozenset[str]) -> list[Manifest]:
    """Return the manifests that make pods, except those of a kind that the user allows."""
    makers = {id(pods.manifest): pods.manifest for pods in overlay.pods}
    return [manifest for manifest in makers.values() if not objects.is_allowed(manifest, allowed)]


def _files(overlay: RenderedOverlay) -> Iterator[tuple[Manifest, Location, str, tuple[str, ...]]]:
    """Yield each file of the ConfigMaps that pods mount, and each other path at which a volume has it.

    Of those that containers also get as variables, only the other paths are compared: users change the values, and
    the names are compared as variables. A file has its manifest, its location there, the part of the ConfigMap that has
    it, and its key, path and content: an edit may rename the ConfigMaps.
    """
    uses = [
        (pods.manifest, name, place)
        for pods in overlay.pods
        for noun, name, place in taken.fields(pods)
        if noun == taken.CONFIG_MAP
    ]
    variables = {name for _, name, place in uses if place[-2] == "configMapRef"}
    listed = set()
    for workload, name, place in uses:
        if place[-2] != "configMap" or (manifest := overlay.named("ConfigMap", name)) is None:
            continue
        parts = {part: mapping(manifest.data.get(part)) for part in ("data", "binaryData")}
        for part, files in parts.items():
            if name not in listed and (name not in variables or part == "binaryData"):
                for key, value in files.items():
                    yield manifest, (part, key), part, (str(key), "", str(value))
        listed.add(name)
        for index, item in enumerate(map(mapping, listing(at(workload.data, (*place[:-1], "items"))))):
            key, path = str(item.get("key")), str(item.get("path"))
            part = "data" if key in parts["data"] else "binaryData"
            value = "" if part == "data" and name in variables else str(parts[part].get(key))
            if path != key:
                yield workload, (*place[:-1], "items", index, "path"), part, (key, path, value)


def check_variables(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for each variable that no package may set, and for each choice of a script that pods lack."""
    uses: dict[str, tuple[Manifest, list[_Use]]] = {}  # each ConfigMap, by its name, with what gets its variables
    for pods in overlay.pods:
        for location, container in pods.containers():
            from_secrets = set()
            for index, variable in enumerate(map(mapping, listing(container.get("env")))):
                key = text(variable.get("name"))
                if "secretKeyRef" in mapping(variable.get("valueFrom")):
                    from_secrets.add(key)
                if key not in BUILT and (reason := refusal_reason(key)):  # kinds set variables of their own here
                    message = f"{key}: it cannot be set in a package: {reason}"
                    yield overlay.problem(pods.manifest, (*location, "env", index, "name"), message)
            for _, config in config_maps(overlay, container):
                uses.setdefault(config.name, (config, []))[1].append((pods, from_secrets))
    for config, users in uses.values():
        yield from _of_config_map(overlay, config, users)


def _of_config_map(overlay: RenderedOverlay, manifest: Manifest, users: Sequence[_Use]) -> Iterator[Problem]:
    workloads = {str(pods.manifest): pods.manifest for pods, _ in users}
    secrets = {key for _, from_secrets in users for key in from_secrets}
    scripts = next(filter(None, (choices(pods) for pods, _ in users)), ())
    for key, value in mapping(manifest.data.get("data")).items():
        here = ("data", key)
        reasons = [("in a package", refusal_reason(str(key)))]
        reasons += [(f"for {workload}", reserved(workload, str(key))) for workload in workloads.values()]
        for where, reason in reasons:
            if reason:
                yield overlay.problem(manifest, here, f"it cannot be set {where}: {reason}", at_key=True)
        if key in secrets:
            message = f"{key} is a secret: pods read it from a Secret, and anyone can read this file"
            yield overlay.problem(manifest, here, message, "remove this line", at_key=True)
        if key == CHOICE and scripts and value not in scripts:
            yield overlay.problem(manifest, here, *wrong_choice(str(value), scripts))


def _all_variables(overlay: RenderedOverlay) -> Iterator[tuple[str, Manifest, Location]]:
    """Yield each variable that containers get from the package, and where it is set."""
    for pods in overlay.pods:
        for location, container in pods.containers():
            for index, variable in enumerate(listing(container.get("env"))):
                yield text(mapping(variable).get("name")), pods.manifest, (*location, "env", index, "name")
            for prefix, manifest in config_maps(overlay, container):
                for key in mapping(manifest.data.get("data")):
                    yield f"{prefix}{key}", manifest, ("data", key)


def config_maps(overlay: RenderedOverlay, container: dict[str, Any]) -> Iterator[tuple[str, Manifest]]:
    """Yield each ConfigMap of the overlay whose keys become variables of a container, and the prefix of these."""
    for source in map(mapping, listing(container.get("envFrom"))):
        manifest = overlay.named("ConfigMap", mapping(source.get("configMapRef")).get("name"))
        if manifest is not None:
            yield text(source.get("prefix")), manifest

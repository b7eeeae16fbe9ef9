"""Finds names that Kubernetes or an operator would refuse, also derived ones. Tests: verify/test_manifests.py."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.names import LABEL, LABEL_LENGTH, LETTER_FIRST, SUBDOMAIN, SUBDOMAIN_LENGTH, is_key, is_label_value
from packager.kubernetes.manifest import integer, mapping
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.kubernetes.manifest import Manifest
    from packager.rendering.overlay import RenderedOverlay

# A CronJob appends a time of eleven characters to its name; a Service's name is a host name.
_MAX_LENGTHS = {"CronJob": 52, "Service": LABEL_LENGTH}


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for every name that Kubernetes or an operator would refuse."""
    for manifest in overlay.manifests:
        yield from _own_name(overlay, manifest)
        yield from _labels(overlay, manifest)
        longest = _longest_pod_name(manifest)
        if longest and (len(longest) > LABEL_LENGTH or not re.fullmatch(LETTER_FIRST, longest)):
            message = f"makes the name {longest!r}: {len(longest)} characters, at most 63 and starting with a letter"
            yield overlay.problem(manifest, ("metadata", "name"), message, "shorten the name")
        yield from _reserved_names(overlay, manifest)
    yield from _shared_names(overlay)


def _own_name(overlay: RenderedOverlay, manifest: Manifest) -> Iterator[Problem]:
    structure = structures.structure_of(manifest)
    max_length = structure.name_length if structure else _MAX_LENGTHS.get(manifest.kind, SUBDOMAIN_LENGTH)
    pattern = SUBDOMAIN if max_length == SUBDOMAIN_LENGTH else LETTER_FIRST if manifest.kind == "Service" else LABEL
    name = manifest.name
    if not re.fullmatch(pattern, name):
        expected = "use lower-case letters, digits and '-', starting and ending with a letter or digit"
        message = f"{name!r} is not a valid name: {expected}"
        yield overlay.problem(manifest, ("metadata", "name"), message)
    elif len(name) > max_length:
        yield overlay.problem(manifest, ("metadata", "name"), f"{len(name)} characters, the limit is {max_length}")


def _longest_pod_name(manifest: Manifest) -> str | None:
    """Return the longest name that a pod of `manifest` gets; None if nothing is appended to the manifest's name."""
    if structure := structures.structure_of(manifest):
        return structure.longest_name(manifest)
    if manifest.kind == "StatefulSet":
        return f"{manifest.name}-{max((integer(manifest.spec.get('replicas')) or 1) - 1, 0)}"
    return None


def _reserved_names(overlay: RenderedOverlay, workload: Manifest) -> Iterator[Problem]:
    """Yield a finding for every object that has the name of an object that the operator makes for the workload."""
    structure = structures.structure_of(workload)
    if structure is None:
        return
    for other in overlay.manifests:
        if other is not workload and (other.kind, other.name) in structure.made_objects(workload):
            message = f"{structure.maker} creates a {other.kind} of this name for the {workload.kind}"
            yield overlay.problem(other, ("metadata", "name"), message, "give it another name")


def _shared_names(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for every workload whose operator makes an object of the same name for an earlier workload."""
    makers: dict[tuple[str, str], Manifest] = {}
    for workload in overlay.manifests:
        structure = structures.structure_of(workload)
        made = structure.made_objects(workload) if structure else ()
        for kind, name in (item for item in made if item in makers):
            message = f"{makers[kind, name]} and this workload both need the {kind} {name}"
            yield overlay.problem(workload, ("metadata", "name"), message, "give it another name")
            break
        makers |= dict.fromkeys(made, workload)


def _labels(overlay: RenderedOverlay, manifest: Manifest) -> Iterator[Problem]:
    holders: list[tuple[Location, object]] = [(("metadata",), manifest.data.get("metadata"))]
    for pods in overlay.pods:
        if pods.manifest is manifest:
            holders.append(((*pods.location, "spec"), {"nodeSelector": pods.spec.get("nodeSelector")}))
            if pods.location:
                holders.append(((*pods.location, "metadata"), pods.metadata))
    for location, holder in holders:
        for field in ("labels", "annotations", "nodeSelector"):
            for key, value in mapping(mapping(holder).get(field)).items():
                here = (*location, field, key)
                if not is_key(key if field != "annotations" else key.lower()):
                    form = "use at most 63 letters, digits and '-_.', optionally after a domain and '/'"
                    message = f"{key!r} is not a valid key: {form}"
                    yield overlay.problem(manifest, here, message, at_key=True)
                if field == "annotations" or not isinstance(value, str):
                    continue
                if not is_label_value(value):
                    form = "use at most 63 letters, digits and '-_.', with a letter or digit at both ends"
                    message = f"{value!r} is not a valid label value: {form}"
                    yield overlay.problem(manifest, here, message)

"""Finds Secrets and service accounts of the namespace that a package's pods use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.kubernetes.manifest import listing, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.verify.overlay import RenderedOverlay
    from packager.workloads.pods import Pods

_TOKEN = "a token of the namespace's service account is mounted, with its rights"  # noqa: S105 - a message
_OPTION = "service-account"


def check(overlay: RenderedOverlay, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for every Secret and service account that a pod uses, and no option of the package brings.

    Args:
        overlay: It.
        allowed: The kinds that the user has named.
    """
    for pods in overlay.pods:
        if "Secret" not in allowed:
            for location, name in _secrets(pods):
                message = f"reads the Secret {name!r} of the namespace, which no build does"
                yield overlay.problem(pods.manifest, location, message, "--allow Secret permits it")
        if "ServiceAccount" not in allowed:
            yield from _account(overlay, pods)


def _secrets(pods: Pods) -> Iterator[tuple[Location, object]]:
    for location, volume in pods.volumes():
        yield from _secret_name((*location, "secret", "secretName"), volume, "secret", "secretName")
        for here, source in _projected(location, volume):
            yield from _secret_name((*here, "secret", "name"), source, "secret", "name")
        for kind in ("csi", "cephfs", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"):
            for key in ("secretRef", "nodePublishSecretRef"):
                here = (*location, kind, key, "name")
                yield from _secret_name(here, mapping(volume.get(kind)), key, "name")
        yield from _secret_name((*location, "azureFile", "secretName"), volume, "azureFile", "secretName")
    for location, container in pods.containers():
        for index, source in enumerate(listing(container.get("envFrom"))):
            yield from _secret_name((*location, "envFrom", index, "secretRef", "name"), source, "secretRef", "name")
        for index, variable in enumerate(listing(container.get("env"))):
            here = (*location, "env", index, "valueFrom", "secretKeyRef", "name")
            yield from _secret_name(here, mapping(mapping(variable).get("valueFrom")), "secretKeyRef", "name")


def _secret_name(location: Location, holder: Any, key: str, name: str) -> Iterator[tuple[Location, object]]:
    value = mapping(mapping(holder).get(key)).get(name)
    if value is not None:
        yield location, value


def _projected(location: Location, volume: dict[str, Any]) -> Iterator[tuple[Location, Any]]:
    """Yield each source of a projected volume, and where it stands."""
    for index, source in enumerate(listing(mapping(volume.get("projected")).get("sources"))):
        yield (*location, "projected", "sources", index), source


def _account(overlay: RenderedOverlay, pods: Pods) -> Iterator[Problem]:
    if any(folder.rpartition("/")[2] == _OPTION for folder, _ in overlay.sources.components):
        return
    here = (*pods.location, "spec")
    for field in ("serviceAccountName", "serviceAccount"):
        name = pods.spec.get(field)
        if name not in (None, "", "default"):
            message = f"runs as the service account {name!r} of the namespace"
            hint = f"use the option {_OPTION}; or --allow ServiceAccount permits it"
            yield overlay.problem(pods.manifest, (*here, field), message, hint)
    if pods.spec.get("automountServiceAccountToken") is not False:
        hint = "set it to false; or --allow ServiceAccount permits it"
        yield overlay.problem(pods.manifest, (*here, "automountServiceAccountToken"), _TOKEN, hint)
    for location, volume in pods.volumes():
        for place, source in _projected(location, volume):
            if "serviceAccountToken" in mapping(source):
                hint = "--allow ServiceAccount permits it"
                yield overlay.problem(pods.manifest, (*place, "serviceAccountToken"), _TOKEN, hint)

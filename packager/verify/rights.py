"""Finds Secrets and service accounts of the namespace that a package's pods use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base import envfile
from packager.base.values import replace
from packager.kubernetes.manifest import at, listing, mapping
from packager.options import SECRETS
from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods

_TOKEN = "a token of the namespace's service account is mounted, with its rights"  # noqa: S105 - a message
_OPTION = "service-account"


def check(overlay: RenderedOverlay, allowed: frozenset[str]) -> Iterator[Problem]:
    """Yield a finding for every Secret and service account that a pod uses and no option of the package provides.

    Args:
        overlay: It.
        allowed: The kinds that the user has named.
    """
    for pods in overlay.pods:
        if "Secret" not in allowed:
            own = _own_secret(overlay)
            for location, name in _secrets(pods):
                if own is not None and _is_own(overlay, pods, location, own):
                    continue
                message = f"reads the Secret {name!r} of the namespace, which no build does"
                yield overlay.problem(pods.manifest, location, message, "--allow Secret permits it")
        if "ServiceAccount" not in allowed:
            yield from _account(overlay, pods)


def notes(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield what the pods read from the Secret of the package, by the component `secrets`."""
    own = _own_secret(overlay)
    places = [
        (pods, location)
        for pods in (overlay.pods if own is not None else ())
        for location, _ in _secrets(pods)
        if _is_own(overlay, pods, location, str(own))
    ]
    if places:
        keys = dict.fromkeys(str(at(pods.manifest.data, (*location[:-1], "key"))) for pods, location in places)
        message = f"the pods of {overlay.name} read {', '.join(keys)} from the Secret {own!r} of the namespace"
        pods, location = places[0]
        yield replace(overlay.problem(pods.manifest, location, ""), message=message)


def _own_secret(overlay: RenderedOverlay) -> str | None:
    """Return the Secret that SECRET in `site.env` names, where the component `secrets` is on; else None."""
    for folder, _ in overlay.sources.components:
        common, _, name = folder.rpartition("/")
        if name == SECRETS.name:
            text = overlay.sources.files.get(layout.site_env(common), b"")
            return next((line.value for line in envfile.lines(text) if line.key == SECRETS.keys[0].name), None)
    return None


def _is_own(overlay: RenderedOverlay, pods: Pods, location: Location, own: str) -> bool:
    """Whether `location` names the Secret `own` for a variable of the package's secrets, and a key of the same name."""
    variable = mapping(at(pods.manifest.data, location[:-3]))
    reference = mapping(mapping(variable.get("valueFrom")).get("secretKeyRef"))
    name = variable.get("name")
    return (
        location[-3:] == ("valueFrom", "secretKeyRef", "name")
        and reference.get("name") == own
        and name in overlay.sources.secrets
        and reference.get("key") == name
    )


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
    """Yield each source of a projected volume, and its location."""
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

"""What a manifest refers to: every ConfigMap, key, volume, claim and variable has to be there."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from packager.components import STORAGE_LABEL
from packager.problems import similar
from packager.verify.overlay import listing, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.problems import Problem
    from packager.verify.overlay import Overlay, Pods
    from packager.yamlio import Location

_VARIABLE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")


def check(overlay: Overlay) -> Iterator[Problem]:
    """Yield a finding for everything that is referred to and is not there."""
    for pods in overlay.pods:
        for location, volume in pods.volumes():
            yield from _volume(overlay, pods, location, volume)
        for location, container in pods.containers():
            yield from _environment(overlay, pods, location, container)
            yield from _mounts(overlay, pods, location, container)
            yield from _command(overlay, pods, location, container)


def _volume(overlay: Overlay, pods: Pods, location: Location, volume: dict[str, Any]) -> Iterator[Problem]:
    yield from _map(overlay, pods, (*location, "configMap"), volume.get("configMap"))
    projected = listing(mapping(volume.get("projected")).get("sources"))
    for index, source in enumerate(projected):
        here = (*location, "projected", "sources", index, "configMap")
        yield from _map(overlay, pods, here, mapping(source).get("configMap"))
    claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
    if claim is not None and not _of_site(pods) and not overlay.named("PersistentVolumeClaim", claim):
        here = (*location, "persistentVolumeClaim", "claimName")
        yield _missing(overlay, pods, here, "PersistentVolumeClaim", claim)


def _of_site(pods: Pods) -> bool:
    """Whether the option `pvc` is on: its claims are the site's, and no overlay need bring them."""
    labels = mapping(mapping(pods.manifest.data.get("metadata")).get("labels"))
    return labels.get(STORAGE_LABEL) == "pvc"


def _environment(overlay: Overlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    for index, source in enumerate(listing(container.get("envFrom"))):
        here = (*location, "envFrom", index, "configMapRef")
        yield from _map(overlay, pods, here, mapping(source).get("configMapRef"))
    for index, variable in enumerate(listing(container.get("env"))):
        here = (*location, "env", index, "valueFrom", "configMapKeyRef")
        yield from _map(overlay, pods, here, mapping(mapping(variable).get("valueFrom")).get("configMapKeyRef"))


def _map(overlay: Overlay, pods: Pods, location: Location, reference: Any) -> Iterator[Problem]:
    """Check a reference to a ConfigMap, and to its keys where it names some."""
    if not isinstance(reference, dict) or reference.get("optional") is True or reference.get("name") is None:
        return
    config = overlay.named("ConfigMap", reference["name"])
    if config is None:
        yield _missing(overlay, pods, (*location, "name"), "ConfigMap", reference["name"])
        return
    keys = _keys(overlay, reference["name"])
    named = [((*location, "key"), reference.get("key"))]
    named += [
        ((*location, "items", index, "key"), mapping(item).get("key"))
        for index, item in enumerate(listing(reference.get("items")))
    ]
    for here, key in named:
        if key is not None and key not in keys:
            message = f"the ConfigMap {config.name} has no key {key!r}"
            yield overlay.problem(pods.manifest, here, message, similar(str(key), keys))


def _mounts(overlay: Overlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    volumes = {text(volume.get("name")): volume for _, volume in pods.volumes()}
    seen: set[str] = set()
    for index, entry in enumerate(listing(container.get("volumeMounts"))):
        mount, here = mapping(entry), (*location, "volumeMounts", index)
        name, path = text(mount.get("name")), text(mount.get("mountPath"))
        if name and name not in volumes:
            hint = similar(name, volumes)
            yield overlay.problem(pods.manifest, (*here, "name"), f"there is no volume {name!r}", hint)
        if path in seen:
            yield overlay.problem(pods.manifest, (*here, "mountPath"), f"{path} is mounted over twice")
        seen.add(path)
        if ":" in path:
            yield overlay.problem(pods.manifest, (*here, "mountPath"), f"{path!r} holds a ':', which no mountPath may")
        config = mapping(mapping(volumes.get(name)).get("configMap"))
        sub_path = text(mount.get("subPath"))
        if sub_path and config.get("name") and not config.get("items") and not config.get("optional"):
            keys = _keys(overlay, config["name"])
            if keys and sub_path not in keys:
                message = f"the ConfigMap {config['name']} has no key {sub_path!r}"
                yield overlay.problem(pods.manifest, (*here, "subPath"), message, similar(sub_path, keys))


def _command(overlay: Overlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    """Check the variables in the command, and that a file which it names on a mounted ConfigMap is one of its keys."""
    variables = _variables(overlay, container)
    mounted = _mounted(overlay, pods, container)
    for field in ("command", "args"):
        for index, argument in enumerate(listing(container.get(field))):
            here = (*location, field, index)
            for name in _VARIABLE.findall(str(argument)):
                if name and variables is not None and name not in variables:
                    message = f"$({name}) is no variable of the container, and stays as it is"
                    yield overlay.problem(pods.manifest, here, message, similar(name, variables))
            expanded = _VARIABLE.sub(lambda match: (variables or {}).get(match[1] or "") or match[0], str(argument))
            folder, key = posixpath.split(expanded)
            if folder in mounted and key not in mounted[folder][1]:
                config, keys = mounted[folder]
                message = f"the ConfigMap {config}, mounted there, has no {key!r}"
                yield overlay.problem(pods.manifest, here, message, similar(key, keys))


def _variables(overlay: Overlay, container: dict[str, Any]) -> dict[str, str] | None:
    """Return the container's environment; None when some of it comes from what the package does not hold."""
    variables: dict[str, str] = {}
    for source in listing(container.get("envFrom")):
        name = mapping(mapping(source).get("configMapRef")).get("name")
        config = overlay.named("ConfigMap", name)
        if config is None:
            return None
        prefix = str(mapping(source).get("prefix") or "")
        variables |= {f"{prefix}{key}": str(value) for key, value in mapping(config.data.get("data")).items()}
    for variable in listing(container.get("env")):
        entry = mapping(variable)
        variables[str(entry.get("name"))] = str(entry.get("value") or "")
    return variables


def _mounted(overlay: Overlay, pods: Pods, container: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    """Return the ConfigMaps that are mounted whole: the path, and there the ConfigMap's name and its keys."""
    volumes = {text(volume.get("name")): mapping(volume.get("configMap")) for _, volume in pods.volumes()}
    mounted = {}
    for entry in listing(container.get("volumeMounts")):
        mount = mapping(entry)
        config = volumes.get(text(mount.get("name"))) or {}
        if config.get("name") and not config.get("items") and not mount.get("subPath"):
            keys = _keys(overlay, config["name"])
            if keys:
                mounted[str(mount.get("mountPath")).rstrip("/")] = (str(config["name"]), keys)
    return mounted


def _keys(overlay: Overlay, name: object) -> list[str]:
    config = overlay.named("ConfigMap", name)
    if config is None:
        return []
    return [*mapping(config.data.get("data")), *mapping(config.data.get("binaryData"))]


def _missing(overlay: Overlay, pods: Pods, location: Location, kind: str, name: object) -> Problem:
    names = overlay.names(kind)
    hint = similar(str(name), names) or f"the {kind}s are: {', '.join(names) or 'none'}"
    return overlay.problem(pods.manifest, location, f"the overlay has no {kind} {name!r}", hint)

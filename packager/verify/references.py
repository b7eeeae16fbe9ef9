"""Checks that ConfigMaps, keys, volumes and claims of a manifest exist. Tests: verify/test_podspec.py."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from packager.base.problems import similar
from packager.kubernetes.containers import MOST, Expander, hiding_complaint, normalized, references
from packager.kubernetes.manifest import at, listing, mapping, text
from packager.kubernetes.objects import DEFAULT_CONTAINER
from packager.verify import taken
from packager.workloads.structures import added_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.problems import Problem
    from packager.base.yamlio import Location
    from packager.rendering.overlay import RenderedOverlay
    from packager.workloads.pods import Pods

_KUBELET_WRITTEN = frozenset(("configMap", "secret", "downwardAPI", "projected"))


def check(overlay: RenderedOverlay) -> Iterator[Problem]:
    """Yield a finding for every reference to an object, key, volume, claim or variable that does not exist."""
    for pods in overlay.pods:
        yield from _default_container(overlay, pods)
        for noun, _, location in taken.fields(pods):
            if noun == taken.CONFIG_MAP:
                yield from _config_map(overlay, pods, location[:-1])
        for location, volume in pods.volumes():
            yield from _duplicate_paths(overlay, pods, location, listing(at(volume, ("projected", "sources"))))
        for location, container in pods.containers():
            yield from _mounts(overlay, pods, location, container)
            yield from _command(overlay, pods, location, container)


def _default_container(overlay: RenderedOverlay, pods: Pods) -> Iterator[Problem]:
    """Check that the default container exists, whose log `kubectl logs` shows."""
    names = [mapping(container).get("name") for container in listing(pods.spec.get("containers"))]
    name = pods.default_container
    if names and name is not None and name not in names:
        here = (*pods.location, "metadata", "annotations", DEFAULT_CONTAINER)
        hint = similar(str(name), map(str, names))
        yield overlay.problem(pods.manifest, here, f"container {name!r} not found", hint)


def _duplicate_paths(overlay: RenderedOverlay, pods: Pods, location: Location, sources: list[Any]) -> Iterator[Problem]:
    """Yield each path that two sources of a volume have (pkg/apis/core/validation: validateProjectionSources)."""
    seen: set[str] = set()
    for index, source in enumerate(sources):
        for kind in ("configMap", "secret", "downwardAPI"):
            for position, item in enumerate(listing(mapping(mapping(source).get(kind)).get("items"))):
                path = text(mapping(item).get("path"))
                if path and path in seen:
                    here = (*location, "projected", "sources", index, kind, "items", position, "path")
                    yield overlay.problem(pods.manifest, here, f"two files of the volume are called {path!r}")
                seen.add(path)


def _config_map(overlay: RenderedOverlay, pods: Pods, location: Location) -> Iterator[Problem]:
    """Check that a ConfigMap has the keys that a reference names; `allowed_fields` reports a missing one."""
    reference = mapping(at(pods.manifest.data, location))
    config = overlay.named("ConfigMap", reference["name"])
    if config is None or reference.get("optional") is True:
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


def _mounts(overlay: RenderedOverlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    volumes = {text(volume.get("name")): volume for _, volume in pods.volumes()}
    seen: set[str] = set()
    read_only = list(_read_only(container, volumes))
    for index, entry in enumerate(listing(container.get("volumeMounts"))):
        mount, here = mapping(entry), (*location, "volumeMounts", index)
        name, path = text(mount.get("name")), text(mount.get("mountPath"))
        if name and name not in volumes:
            hint = similar(name, volumes)
            yield overlay.problem(pods.manifest, (*here, "name"), f"volume {name!r} not found", hint)
        folder = normalized(path)
        if folder in seen:
            yield overlay.problem(pods.manifest, (*here, "mountPath"), f"two volumes are mounted at {path}")
        seen.add(folder)
        if complaint := _mount_complaint(path, folder, read_only):
            yield overlay.problem(pods.manifest, (*here, "mountPath"), complaint)
        if ":" in path:
            yield overlay.problem(
                pods.manifest, (*here, "mountPath"), f"{path!r} contains ':', which is not allowed in a mountPath"
            )
        config = mapping(mapping(volumes.get(name)).get("configMap"))
        sub_path = text(mount.get("subPath"))
        if sub_path and config.get("name") and not config.get("items") and not config.get("optional"):
            keys = _keys(overlay, config["name"])
            if keys and sub_path not in keys:
                message = f"the ConfigMap {config['name']} has no key {sub_path!r}"
                yield overlay.problem(pods.manifest, (*here, "subPath"), message, similar(sub_path, keys))


def _mount_complaint(path: str, folder: str, read_only: list[str]) -> str | None:
    """Return the reason why nothing can be mounted at `path`, or None; `folder` is the path as the kubelet reads it."""
    if not path.strip():
        return f"expected a folder, found {path!r}"
    if ".." in path.split("/"):
        return f"expected a folder without '..', found {path!r}"
    above = next((other for other in read_only if folder.startswith(f"{other}/")), None)
    if above is not None:
        return f"{path} is in {above}, which is mounted from a ConfigMap, and no folder can be created there"
    return hiding_complaint(path)


def _read_only(container: dict[str, Any], volumes: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the read-only folders, which the kubelet fills completely: no other mount can be below them."""
    for entry in listing(container.get("volumeMounts")):
        mount = mapping(entry)
        volume = mapping(volumes.get(text(mount.get("name"))))
        if _KUBELET_WRITTEN & volume.keys() and not mount.get("subPath"):
            yield normalized(text(mount.get("mountPath")))


def _command(overlay: RenderedOverlay, pods: Pods, location: Location, container: dict[str, Any]) -> Iterator[Problem]:
    """Check that the variables of the command exist, and the files that it names in mounted ConfigMaps."""
    variables = _variables(overlay, pods, container)
    expander = variables or Expander()
    mounted = _mounted(overlay, pods, container)
    for field in ("command", "args"):
        for index, argument in enumerate(listing(container.get(field))):
            here = (*location, field, index)
            for name in references(str(argument)):
                if variables is not None and name not in variables.values:
                    message = f"$({name}) is not a variable of the container and is not expanded"
                    yield overlay.problem(pods.manifest, here, message, similar(name, variables.values))
            expanded = normalized(expander.expand(str(argument)))
            for folder, (configs, files) in mounted.items():
                name = expanded.removeprefix(f"{folder}/")
                if name != expanded and not any(f"{file}/".startswith(f"{name}/") for file in files):
                    holds = "has" if len(configs) == 1 else "have"
                    maps = f"ConfigMap{'s' if len(configs) > 1 else ''} {', '.join(configs)}"
                    message = f"the {maps}, mounted there, {holds} no {name!r}"
                    yield overlay.problem(pods.manifest, here, message, similar(name, files))
    if expander.is_exceeded:
        message = f"variables and arguments are longer than {MOST >> 20} MiB when their $(NAME) are expanded"
        yield overlay.problem(pods.manifest, (*location, "env"), message)


def _variables(overlay: RenderedOverlay, pods: Pods, container: dict[str, Any]) -> Expander | None:
    """Return the container's environment; None if a part of it comes from an object outside of the package."""
    expander = Expander(dict.fromkeys(added_variables(pods.manifest)))
    for source in listing(container.get("envFrom")):
        name = mapping(mapping(source).get("configMapRef")).get("name")
        config = overlay.named("ConfigMap", name)
        if config is None:
            return None
        prefix = str(mapping(source).get("prefix") or "")
        for key, value in mapping(config.data.get("data")).items():
            expander.values[f"{prefix}{key}"] = str(value)
    for variable in listing(container.get("env")):
        entry = mapping(variable)
        is_unknown = entry.get("valueFrom") is not None
        expander.add(str(entry.get("name")), None if is_unknown else str(entry.get("value") or ""))
    return expander


def _mounted(overlay: RenderedOverlay, pods: Pods, container: dict[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    """Return the ConfigMaps that are mounted at each folder, and the files that they have there."""
    volumes = {text(volume.get("name")): volume for _, volume in pods.volumes()}
    mounted = {}
    for entry in listing(container.get("volumeMounts")):
        mount = mapping(entry)
        volume = mapping(volumes.get(text(mount.get("name"))))
        sources = listing(mapping(volume.get("projected")).get("sources")) or [volume]
        configs = [mapping(mapping(source).get("configMap")) for source in sources]
        if mount.get("subPath") or not all(config.get("name") for config in configs):
            continue
        files = [_files(overlay, config) for config in configs]
        if all(files):
            names = [str(config["name"]) for config in configs]
            mounted[normalized(text(mount.get("mountPath")))] = names, [*itertools.chain(*files)]
    return mounted


def _files(overlay: RenderedOverlay, config: dict[str, Any]) -> list[str]:
    """Return the paths of a source in its volume: those of its items, or all keys of the ConfigMap."""
    if config.get("items"):
        return [str(mapping(item).get("path")) for item in listing(config.get("items"))]
    return _keys(overlay, config["name"])


def _keys(overlay: RenderedOverlay, name: object) -> list[str]:
    config = overlay.named("ConfigMap", name)
    if config is None:
        return []
    return [*mapping(config.data.get("data")), *mapping(config.data.get("binaryData"))]

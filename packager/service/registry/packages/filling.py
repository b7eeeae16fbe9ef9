"""Package + values -> the objects of a job. Values are put into scalars of the objects; no text is parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.kubernetes.manifest import Manifest, at, listing, mapping
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packager.service.registry.packages.content import PackageObjects

SECRETS = "package-secrets"
"""What follows the release in the name of the Secret with the secrets that were filled in."""

_TEXTS = ("data", "binaryData", "stringData")
"""Where the texts of a ConfigMap or a Secret are: nothing in them refers to an object."""


def word(mark: str, number: int) -> str:
    """Return the word that stands for a value: letters and digits, which no tool changes."""
    return f"{mark}n{number}e"


def filled(
    package: PackageObjects, values: Mapping[str, str], secrets: Mapping[str, str], release: str
) -> list[dict[str, Any]]:
    """Return the objects of a job.

    Args:
        package: The package.
        values: The value of each key of mlops.env that is no secret.
        secrets: The secrets that were filled in.
        release: The job's name.
    """
    objects = substituted(package, values)
    names = _names(objects, package, release)
    names |= dict.fromkeys(package.secrets, f"{release}-{SECRETS}")
    in_maps = list(_secrets_in_maps(objects, secrets))
    for name, key in in_maps:
        _read_from_secret(objects, name, key, f"{release}-{SECRETS}")
    return [renamed(item, names) for item in objects]


def substituted(package: PackageObjects, values: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the objects with values in place of the words: a key without a value is empty."""
    pattern = re.compile(rf"{package.mark}n([0-9]+)e")

    def value_of(match: re.Match[str]) -> str:
        return values.get(package.keys[int(match[1])], "")

    def replace(text: str) -> str:
        return pattern.sub(value_of, text) if package.mark in text else text

    objects: list[dict[str, Any]] = _mapped(package.objects, replace)
    for path in package.numbers:
        holder, last = at(objects, tuple(path[:-1])), path[-1]
        holder[last] = int(holder[last]) if re.fullmatch("-?[0-9]{1,18}", holder[last]) else holder[last]
    return objects


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def _names(objects: Sequence[dict[str, Any]], package: PackageObjects, release: str) -> dict[str, str]:
    """Return the name of each object in a job: the workload's is the release, all others begin with it."""
    names: dict[str, str] = {}
    manifests = [Manifest(item) for item in objects]
    for manifest in manifests:
        if structures.is_workload(manifest):
            names.setdefault(manifest.name, release)
    for manifest in manifests:
        if manifest.name and manifest.name not in names:
            role = manifest.name.removeprefix(f"{package.prefix}-").removesuffix(f"-{package.suffix}")
            name, number = f"{release}-{role}", 2
            while name in names.values():
                name, number = f"{release}-{role}-{number}", number + 1
            names[manifest.name] = name
    return names


def renamed(item: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return an object under another name, with what it refers to; what programs are told stays."""
    return {key: value if key in _TEXTS else _referring(key, value, names) for key, value in item.items()}


def _referring(key: str, value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, dict):
        return {below: _referring(below, item, names) for below, item in value.items()}
    if not isinstance(value, list) or key in ("command", "args"):
        return value
    if key == "env":
        return [
            {**item, "valueFrom": _referring("valueFrom", item["valueFrom"], names)}
            if isinstance(item, dict) and "valueFrom" in item
            else item
            for item in value
        ]
    return [_referring("", item, names) for item in value]


def _secrets_in_maps(objects: Sequence[dict[str, Any]], secrets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Take the secrets that were filled in out of ConfigMaps; yield the name of each map, and the key."""
    for item in objects:
        data = mapping(item.get("data")) if item.get("kind") == "ConfigMap" else {}
        for key in secrets:
            if data.pop(key, None) is not None:
                yield Manifest(item).name, key


def _read_from_secret(objects: Sequence[dict[str, Any]], name: str, key: str, secret: str) -> None:
    """Let each container that gets its environment from a ConfigMap get a variable of it from a Secret instead."""
    for item in objects:
        for pods in structures.pods(Manifest(item)):
            for _, container in pods.containers():
                references = (mapping(source).get("configMapRef") for source in listing(container.get("envFrom")))
                if any(mapping(reference).get("name") == name for reference in references):
                    variable = {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
                    container["env"] = [*listing(container.get("env")), variable]

"""Package + values -> the objects of a job. Values are inserted into scalars of the objects; no text is parsed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.kubernetes.manifest import Manifest, at, listing, mapping
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from packager.base.values import Json
    from packager.kubernetes.objects import Object
    from packager.service.registry.packages.content import PackageObjects

SECRETS = "package-secrets"
"""The suffix of the Secret with the filled secrets, after the release."""

MOST = 4 << 20
"""The most characters that values may take in the objects of a job: a package can name a value any number of times."""

_TEXTS = ("data", "binaryData", "stringData")
"""The fields with the texts of a ConfigMap or a Secret, which never refer to objects."""


class TooLongError(ValueError):
    """The values of a job take more than `MOST` characters in its objects."""


def word(mark: str, number: int) -> str:
    """Return the placeholder for a value: letters and digits, which no tool changes."""
    return f"{mark}n{number}e"


def filled(
    package: PackageObjects, values: Mapping[str, str], secrets: Mapping[str, str], release: str
) -> list[Object]:
    """Return the objects of a job.

    Args:
        package: The package.
        values: The value of each key of mlops.env that is not a secret.
        secrets: The filled secrets.
        release: The name of the job.

    Raises:
        TooLongError: The objects would be too long.
    """
    objects = substituted(package, values)
    names = _names(objects, package, release)
    names |= dict.fromkeys(package.secrets, f"{release}-{SECRETS}")
    in_maps = list(_secrets_in_maps(objects, secrets))
    for name, key in in_maps:
        _read_from_secret(objects, name, key, f"{release}-{SECRETS}")
    return [renamed(item, names) for item in objects]


def substituted(package: PackageObjects, values: Mapping[str, str]) -> list[Object]:
    """Return the objects with values in place of the words; a key without a value becomes empty.

    Raises:
        TooLongError: The objects would be too long.
    """
    pattern = re.compile(rf"{package.mark}n([0-9]+)e")
    left = MOST

    def value_of(match: re.Match[str]) -> str:
        nonlocal left
        value = values.get(package.keys[int(match[1])], "")
        left -= len(value)
        if left < 0:
            raise TooLongError(f"the values take more than {MOST >> 20} MiB in the objects")
        return value

    def replace(text: str) -> str:
        return pattern.sub(value_of, text) if package.mark in text else text

    objects = [{key: _mapped(value, replace) for key, value in item.items()} for item in package.objects]
    for path in package.numbers:
        holder, last = at(objects, tuple(path[:-1])), path[-1]
        holder[last] = int(holder[last]) if re.fullmatch("-?[0-9]{1,18}", holder[last]) else holder[last]
    return objects


def _mapped(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return [_mapped(item, change) for item in value] if isinstance(value, list) else value


def _names(objects: Sequence[Object], package: PackageObjects, release: str) -> dict[str, str]:
    """Return the new name of each object: the release for the workload, and names that begin with it for the others."""
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


def renamed(item: Object, names: Mapping[str, str]) -> Object:
    """Return an object with new names of itself and in its references, except in commands and environment values."""
    return {key: value if key in _TEXTS else _referring(key, value, names) for key, value in item.items()}


def _referring(key: str, value: Json, names: Mapping[str, str]) -> Json:
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


def _secrets_in_maps(objects: Sequence[Object], secrets: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Remove filled secrets from ConfigMaps, and yield the name of the map and the key of each."""
    for item in objects:
        data = mapping(item.get("data")) if item.get("kind") == "ConfigMap" else {}
        for key in secrets:
            if data.pop(key, None) is not None:
                yield Manifest(item).name, key


def _read_from_secret(objects: Sequence[Object], name: str, key: str, secret: str) -> None:
    """Add a variable from a Secret to each container that gets its environment from the ConfigMap `name`."""
    for item in objects:
        for pods in structures.pods(Manifest(item)):
            for _, container in pods.containers():
                references = (mapping(source).get("configMapRef") for source in listing(container.get("envFrom")))
                if any(mapping(reference).get("name") == name for reference in references):
                    variable = {"name": key, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
                    container["env"] = [*listing(container.get("env")), variable]

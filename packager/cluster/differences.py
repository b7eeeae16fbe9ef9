"""Compares objects in a cluster with their manifests."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from packager.base.masking import masked
from packager.base.units import parse_quantity

_MISSING = object()

# Keys by which Kubernetes identifies the items of a list (x-kubernetes-list-map-keys, patchMergeKey).
_KEYS = ("name", "mountPath", "containerPort", "key")


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs."""

    path: str  # the path of the value: `spec.containers[main].image`; empty for an object that does not exist
    before: Any  # the value in the cluster; None if there is none
    after: Any  # the value in the manifest

    def __str__(self) -> str:
        if not self.path:
            return "is new"
        before, after = (value and masked(self._key, _short(value)) for value in (self.before, self.after))
        return f"{self.path}: {_short(before)} -> {_short(after)}"

    @property
    def _key(self) -> str:
        """The key of a value of a ConfigMap, a Secret or an environment; empty for other values."""
        named = re.fullmatch(r"(?:data|stringData|binaryData)\.(.+)|.*\.env\[([^]]+)\]\.value", self.path)
        return (named[1] or named[2]) if named else ""


def differences(manifest: Any, live: Any) -> list[Difference]:
    """Return the differences between `live` and `manifest`."""
    manifest = _unwrapped(manifest)
    relevant = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = manifest.get("metadata", {})
    metadata_fields = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return list(_compare({**relevant, "metadata": metadata_fields}, live, ""))


def _unwrapped(item: Any) -> Any:
    """Return an object whose binary values are as the server writes them: kustomize breaks base64 into lines."""
    key = "data" if item.get("kind") == "Secret" else "binaryData"
    values = item.get(key)
    if not isinstance(values, dict):
        return item
    texts = {name: "".join(value.split()) if isinstance(value, str) else value for name, value in values.items()}
    return {**item, key: texts}


def _compare(desired: Any, actual: Any, path: str) -> Iterator[Difference]:
    if isinstance(desired, dict) and isinstance(actual, dict):
        for key, value in desired.items():
            yield from _compare(value, actual.get(key, _MISSING), f"{path}.{key}" if path else key)
    elif isinstance(desired, list) and isinstance(actual, list):
        yield from _compare_lists(desired, actual, path)
    elif not _is_same(desired, actual):
        yield Difference(path, None if actual is _MISSING else actual, desired)


def _compare_lists(desired: list[Any], actual: list[Any], path: str) -> Iterator[Difference]:
    # The key whose values are unique in the list, if there is one.
    key = next((key for key in _KEYS if _are_told_apart(desired, key)), None)
    if key is None:
        for index, item in enumerate(desired):
            yield from _compare(item, actual[index] if index < len(actual) else _MISSING, f"{path}[{index}]")
        return
    actual_by_key = {item.get(key): item for item in actual if isinstance(item, dict)}
    for item in desired:
        yield from _compare(item, actual_by_key.get(item[key], _MISSING), f"{path}[{item[key]}]")


def _are_told_apart(items: list[Any], key: str) -> bool:
    values = [item.get(key) for item in items if isinstance(item, dict)]
    return len(values) == len(items) and None not in values and len(set(map(str, values))) == len(items)


def _is_same(desired: Any, actual: Any) -> bool:
    """Whether two values mean the same to the server, which writes 0.5 as 500m."""
    if desired == actual or (actual is _MISSING and desired in (None, {}, [], "")):
        return True
    try:
        return parse_quantity(str(desired)) == parse_quantity(str(actual))
    except ValueError:
        return False


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else repr(value)
    first, *rest = text.splitlines() or [""]
    return f"{first[:60]}..." if rest or len(first) > 60 else first

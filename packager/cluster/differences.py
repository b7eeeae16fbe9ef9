"""What an object would become, against what it is: only what the manifest says counts, not what servers fill in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

_MISSING = object()

# Keys by which Kubernetes tells the items of a list apart (x-kubernetes-list-map-keys, patchMergeKey).
_KEYS = ("name", "mountPath", "containerPort", "key")


@dataclass(frozen=True, slots=True)
class Difference:
    """One value.

    Attributes:
        path: Where: `spec.containers[main].image`; empty for an object that is not there at all.
        before: What is there; None for nothing.
        after: What the manifest says.
    """

    path: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if not self.path:
            return "is new"
        return f"{self.path}: {_short(self.before)} -> {_short(self.after)}"


def differences(manifest: Any, live: Any) -> list[Difference]:
    """Return where `live` is not as `manifest` says.

    Args:
        manifest: An object as it would be applied.
        live: The object that is there.
    """
    relevant = {key: value for key, value in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = manifest.get("metadata", {})
    told = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return list(_compare({**relevant, "metadata": told}, live, ""))


def _compare(wanted: Any, found: Any, path: str) -> Iterator[Difference]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key, value in wanted.items():
            yield from _compare(value, found.get(key, _MISSING), f"{path}.{key}" if path else key)
    elif isinstance(wanted, list) and isinstance(found, list):
        yield from _compare_lists(wanted, found, path)
    elif not _same(wanted, found):
        yield Difference(path, None if found is _MISSING else found, wanted)


def _compare_lists(wanted: list[Any], found: list[Any], path: str) -> Iterator[Difference]:
    key = _key(wanted)
    if key is None:
        for index, item in enumerate(wanted):
            yield from _compare(item, found[index] if index < len(found) else _MISSING, f"{path}[{index}]")
        return
    there = {item.get(key): item for item in found if isinstance(item, dict)}
    for item in wanted:
        yield from _compare(item, there.get(item[key], _MISSING), f"{path}[{item[key]}]")


def _key(items: list[Any]) -> str | None:
    for key in _KEYS:
        values = [item.get(key) for item in items if isinstance(item, dict)]
        if len(values) == len(items) and None not in values and len(set(values)) == len(items):
            return key
    return None


def _same(wanted: Any, found: Any) -> bool:
    if wanted == found or (found is _MISSING and wanted in (None, {}, [], "")):
        return True
    try:  # the server writes 0.5 as 500m
        return parse(str(wanted)) == parse(str(found))
    except ValueError:
        return False


def _short(value: Any) -> str:
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else repr(value)
    first, *rest = text.splitlines() or [""]
    return f"{first[:60]}..." if rest or len(first) > 60 else first

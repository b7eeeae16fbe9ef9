"""Manifest: one object as written; reading it never raises, whatever it contains. Tests: verify/test_finds.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.values import Value

if TYPE_CHECKING:
    from packager.base.yamlio import Location


class Manifest(Value, frozen=True):
    """One object."""

    data: dict[str, Any]

    @property
    def api(self) -> str:
        """The apiVersion; empty if the manifest has none."""
        return str(self.data.get("apiVersion") or "")

    @property
    def group(self) -> str:
        """The group of its apiVersion; empty for Kubernetes' first one."""
        return self.api.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """The kind; empty if the manifest has none."""
        return str(self.data.get("kind") or "")

    @property
    def name(self) -> str:
        """The name; empty if the manifest has none."""
        return str(mapping(self.data.get("metadata")).get("name") or "")

    @property
    def spec(self) -> dict[str, Any]:
        """The spec; empty if the manifest has none."""
        return mapping(self.data.get("spec"))

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".strip() or "a manifest"


def at(value: Any, location: Location) -> Any:
    """Return the value at `location`; None without one."""
    for step in location:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def with_value(value: Any, location: Location, new: Any) -> Any:
    """Return `value` with another value at a location that it has."""
    if not location:
        return new
    step, rest = location[0], location[1:]
    if isinstance(step, int):
        return [with_value(item, rest, new) if index == step else item for index, item in enumerate(value)]
    return {**value, step: with_value(value[step], rest, new)}


def mapping(value: Any) -> dict[str, Any]:
    """Return `value`, or an empty mapping if it is of another type, which the check of the schema reports."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Any]:
    """Return `value`, or an empty list if it is of another type."""
    return value if isinstance(value, list) else []


def integer(value: Any) -> int | None:
    """Return `value` when it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Any) -> str:
    """Return `value` when it is text, else nothing of it."""
    return value if isinstance(value, str) else ""


def dotted(location: Location) -> str:
    """Return a path as people write it: spec.containers[0].image."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")


INT32 = (1 << 31) - 1
_INT64 = (1 << 63) - 1


def out_of_range(value: Any, limits: tuple[int, int | None]) -> str | None:
    """Return the expected and the actual value if `value` is a whole number outside of its limits; else None.

    The check of the schema reports values that are not numbers. Without a limit, a number may be as large as it can be.
    """
    number, (least, most) = integer(value), limits
    if number is None or least <= number <= (most or _INT64):
        return None
    return f"expected {f'{least} to {most}' if most else f'at least {least}'}, found {number}"

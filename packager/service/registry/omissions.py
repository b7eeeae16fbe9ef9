"""Filled values -> the same values without optional ones, with which a template must also work."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from packager.service.registry.description import Group, Items, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.base.yamlio import Location
    from packager.service.registry.description import Described

MAX_SINGLE = 20
"""The maximum number of optional values that are left out one by one: each of them costs one rendering."""

_OF_ENDPOINTS = ("headers", "events")
"""The keys that an item with an `endpoint` may have without a description."""


def omissions(described: Group, filled: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a text about the omitted values, and the filled values without them.

    At most MAX_SINGLE optional values are omitted one by one, outer ones first; at the end, all are omitted together.

    Args:
        described: The description of the values.
        filled: Values that satisfy the description.
    """
    locations = list(_optional((), described, filled))
    for location in itertools.islice(locations, MAX_SINGLE):
        yield f"{'.'.join(map(str, location))} left out", _without(filled, location)
    if len(locations) > 1:
        rest = filled
        for location in reversed(locations):
            rest = _without(rest, location)
        yield "only the required values filled in", dict(rest)


def _optional(here: Location, described: Described, value: Any) -> Iterator[Location]:
    """Yield the location of each optional value, outer ones first."""
    if isinstance(described, Group) and isinstance(value, dict):
        for key, entry in described.entries:
            if value.get(key) is not None:
                if not entry.required:
                    yield (*here, key)
                yield from _optional((*here, key), entry, value[key])
    elif isinstance(described, Items) and isinstance(value, list):
        for index, item in enumerate(value):
            yield from _optional_of_item((*here, index), described, item)


def _optional_of_item(here: Location, described: Items, item: Any) -> Iterator[Location]:
    number = kind_of(described, item)
    if number is None:
        return
    kind = described.kinds[number]
    if not kind.required:
        yield here
    yield from (location for location in _optional(here, kind, item) if location != (*here, "type"))
    yield from ((*here, key) for key in _OF_ENDPOINTS if isinstance(item, dict) and "endpoint" in item and key in item)


def _without(value: Any, location: Location) -> Any:
    """Return a copy of a value without the part at a location."""
    first, *rest = location
    copy: Any = value.copy()
    if rest:
        copy[first] = _without(value[first], tuple(rest))
    else:
        del copy[first]
    return copy

"""Filled values -> the same values without optional ones. Tests: service/registry/test_definitions.py."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from packager.service.registry.description import Group, Items, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.service.registry.description import Described

MAX_SINGLE = 20
"""The maximum number of optional values that are left out one by one: each of them costs one rendering."""

_OF_ENDPOINTS = ("headers", "events")
"""The keys that an item with an `endpoint` may have without a description."""


def omissions(described: Group, filled: Mapping[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Yield a text about the omitted values, and the filled values without them.

    At most MAX_SINGLE optional values are omitted one by one, outer ones first; at the end, all are omitted together.

    Args:
        described: The description of the values.
        filled: Values that satisfy the description.
    """
    locations = list(_optional((), described, dict(filled)))
    for location in itertools.islice(locations, MAX_SINGLE):
        yield f"{'.'.join(map(str, location))} left out", _without(filled, {location})
    if len(locations) > 1:
        yield "only the required values filled in", _without(filled, set(locations))


def _optional(here: Location, described: Described, value: Json) -> Iterator[Location]:
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


def _optional_of_item(here: Location, described: Items, item: Json) -> Iterator[Location]:
    number = kind_of(described, item)
    if number is None:
        return
    kind = described.kinds[number]
    if not kind.required:
        yield here
    yield from (location for location in _optional(here, kind, item) if location != (*here, "type"))
    yield from ((*here, key) for key in _OF_ENDPOINTS if isinstance(item, dict) and "endpoint" in item and key in item)


def _without(values: Mapping[str, Json], omitted: Collection[Location], here: Location = ()) -> dict[str, Json]:
    """Return a copy of a mapping at `here` without the values at some locations."""
    return {key: _copied(value, omitted, (*here, key)) for key, value in values.items() if (*here, key) not in omitted}


def _copied(value: Json, omitted: Collection[Location], here: Location) -> Json:
    if isinstance(value, dict):
        return _without(value, omitted, here)
    if isinstance(value, list):
        locations = ((*here, index) for index in range(len(value)))
        return [
            _copied(item, omitted, location)
            for item, location in zip(value, locations, strict=True)
            if location not in omitted
        ]
    return value

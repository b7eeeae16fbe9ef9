"""The combinations of site options that tests render."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from packager.package.options import OPTIONS, conflicts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LARGEST = 6
"""The most options of a set, without what they need: in larger sets, one might hide what two others do."""

_NAMES = [option.name for option in OPTIONS]
_NEEDS = {option.name: option.needs for option in OPTIONS}


def possible_combinations() -> Iterator[tuple[str, ...]]:
    """Yield every option alone, then sets of options in which every two that go together are together at least once.

    An option that adds to another one is always with it.
    """
    yield from (_in_order(_with_needs({name})) for name in _NAMES)
    possible = dict.fromkeys(pair for pair in combinations(_NAMES, 2) if not conflicts(_with_needs(pair)))
    missing = dict(possible)
    while missing:
        chosen = _with_needs(next(iter(missing)))
        while better := _best(chosen, missing):
            chosen = better
        yield _in_order(chosen)
        for pair in combinations(_in_order(chosen), 2):
            missing.pop(pair, None)


def _best(chosen: set[str], missing: Iterable[tuple[str, str]]) -> set[str] | None:
    """Return the set with one option more that has the most of the missing pairs; None if none has more of them."""
    larger = [_with_needs({*chosen, name}) for name in _NAMES if name not in chosen and len(chosen) < LARGEST]
    counts = [(sum(set(pair) <= names for pair in missing), names) for names in larger if not conflicts(names)]
    count, names = max(counts, key=lambda entry: entry[0], default=(0, chosen))
    return names if count > sum(set(pair) <= chosen for pair in missing) else None


def _with_needs(names: Iterable[str]) -> set[str]:
    """Return the options with those that they add to: the first that goes with the others, unless one is there."""
    selected = set(names)
    for name in _in_order(selected):
        if _NEEDS[name] and not selected & set(_NEEDS[name]):
            ways = [selected | {needed} for needed in _NEEDS[name]]
            selected = next((way for way in ways if not conflicts(way)), ways[0])
    return selected


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in _NAMES if name in set(names))

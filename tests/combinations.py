"""The combinations of site options that tests render."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING

from packager.options import OPTIONS, PLACES, conflicts

if TYPE_CHECKING:
    from collections.abc import Iterator


def possible_combinations() -> Iterator[tuple[str, ...]]:
    """Yield every option, and every two of them that go together; each with the option that it adds to.

    Of the options that give one folder a place, every two for different folders are together in one of nine sets.
    """
    apart = [
        tuple(
            option.name
            for option in OPTIONS
            if option.places == (place,) and option.keys[0].name.startswith(place.upper())
        )
        for place in PLACES
    ]
    names = {name for options in apart for name in options}
    chosen: dict[tuple[str, ...], None] = {}
    for size in (1, 2):
        for picked in combinations([option for option in OPTIONS if size == 1 or option.name not in names], size):
            selected = {option.name for option in picked}
            selected |= {option.needs[0] for option in picked if option.needs and not selected & set(option.needs)}
            if not conflicts(selected):
                chosen[tuple(option.name for option in OPTIONS if option.name in selected)] = None
    # An orthogonal array: each two of its four columns have every pair of the three ways.
    for one, other in product(range(3), repeat=2):
        ways = (one, other, (one + other) % 3, (one + 2 * other) % 3)
        chosen[tuple(options[way] for options, way in zip(apart, ways, strict=True))] = None
    yield from chosen

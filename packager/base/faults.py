"""Fault: a problem with a value of a document whose line and column are unknown. Tests: verify/test_manifests.py."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from packager.base.values import Value, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.yamlio import Location


class Fault(Value, frozen=True):
    """A problem, and its location in the document."""

    location: Location  # the value's location; for a missing key, its own location or that of its mapping
    message: str  # the expected value and the one that was found
    hint: str | None = None  # the fix, where it can be known
    at_key: bool = False  # whether the problem is about the key, not its value
    needs: tuple[Location, ...] = ()
    """The locations of the values that the conclusion depends on; `location`, if there are none."""
    among: Location = ()
    """The list or mapping in which something is missing; one of its wrong items may be that thing, misspelled."""

    def below(self, location: Location) -> Fault:
        """Return the fault of a value that is itself part of a larger one, at `location` there."""
        needs = tuple((*location, *need) for need in self.needs)
        among = (*location, *self.among) if self.among else ()
        return replace(self, location=(*location, *self.location), needs=needs, among=among)

    def rests_on(self, doubtful: Sequence[Location]) -> bool:
        """Return whether the conclusion depends on a place in `doubtful`, or on one inside or around such a place."""
        for place in doubtful:
            if any(all(map(operator.eq, need, place)) for need in (self.needs or (self.location,))):
                return True
            if self.among and len(place) <= len(self.among) + 1 and all(map(operator.eq, self.among, place)):
                return True
        return False

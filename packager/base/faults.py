"""Fault: a problem with a value of a document whose line and column are unknown. Tests: verify/test_manifests.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value, replace

if TYPE_CHECKING:
    from packager.base.problems import Problem
    from packager.base.yamlio import Document, Location


class Fault(Value, frozen=True):
    """A problem, and its location in the document."""

    location: Location  # the value's location; for a missing key, its own location or that of its mapping
    message: str  # the expected value and the one that was found
    hint: str | None = None  # the fix, where it can be known
    at_key: bool = False  # whether the problem is about the key, not its value
    count: int = 1  # the number of faults that it represents

    def below(self, location: Location) -> Fault:
        """Return the fault of a value that is itself part of a larger one, at `location` there."""
        return replace(self, location=(*location, *self.location))

    def problem(self, document: Document) -> Problem:
        """Return the problem in a document, with its place."""
        return document.problem(self.location, self.message, hint=self.hint, at_key=self.at_key)

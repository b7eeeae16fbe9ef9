"""Complaint: something wrong with a request, with its place as a JSON pointer (RFC 6901)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.faults import Fault
    from packager.base.problems import Problem
    from packager.base.yamlio import Location


class Complaint(Value, frozen=True):
    """One thing that is wrong with a request.

    Attributes:
        pointer: Where in the body; empty for the body as a whole.
        detail: What was expected and what was found.
        hint: The fix, where it can be known.
    """

    pointer: str
    detail: str
    hint: str | None = None


def counted(complaints: Sequence[Complaint]) -> str:
    """Return how many complaints there are, in words."""
    return f"{len(complaints)} problem{'s' if len(complaints) != 1 else ''}"


def pointer(location: Location) -> str:
    """Return a location as a JSON pointer."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in location)


def of_fault(fault: Fault, above: Location = ()) -> Complaint:
    """Return the complaint about a value of the body, or of the value at `above`."""
    return Complaint(pointer((*above, *fault.location)), fault.message, fault.hint)


def of_problem(problem: Problem, key: str) -> Complaint:
    """Return the complaint about a line of the text at `key` of the body."""
    place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
    return Complaint(pointer((key,)), place + problem.message, problem.hint)

"""Complaint: a fault in a request, at a JSON pointer (RFC 6901). Tests: service/registry/test_description.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.base.faults import Fault
    from packager.base.problems import Problem
    from packager.base.yamlio import Location


class Complaint(Value, frozen=True):
    """A fault in a request."""

    pointer: str  # the place in the body; empty for the body as a whole
    detail: str  # the expected and the found value
    hint: str | None = None  # the fix, if it is known
    count: int = 1  # the number of faults that this complaint represents
    line: int = 0  # the 1-based line in the text at the place; 0 if it is not known


MOST = 50
"""The maximum number of complaints that a response lists."""

_LONGEST_POINTER = 300
_LONGEST_TEXT = 600


def counted(complaints: Sequence[Complaint]) -> str:
    """Return the number of complaints as text, such as "2 problems"."""
    count = sum(item.count for item in complaints)
    return f"{count:,} problem{'s' if count != 1 else ''}"


def listed(complaints: Sequence[Complaint]) -> tuple[Complaint, ...]:
    """Return complaints for a response: at most MOST, with shortened texts, and one with the number of the others."""
    first = [item for item in complaints if item.count == 1][:MOST]
    more = sum(item.count for item in complaints) - len(first)
    short = tuple(
        Complaint(
            cut(item.pointer, _LONGEST_POINTER),
            cut(item.detail, _LONGEST_TEXT),
            None if item.hint is None else cut(item.hint, _LONGEST_TEXT),
            line=item.line,
        )
        for item in first
    )
    return (*short, Complaint("", f"{more:,} more problems are not listed", count=more)) if more else short


def cut(text: str, most: int) -> str:
    """Return a text, shortened to `most` characters if it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def pointer(location: Location) -> str:
    """Return a location as a JSON pointer."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in location)


def of_fault(fault: Fault, above: Location = ()) -> Complaint:
    """Return the complaint about a fault in the body, or in the value at `above`."""
    return Complaint(pointer((*above, *fault.location)), fault.message, fault.hint, fault.count)


def of_problem(problem: Problem, key: str) -> Complaint:
    """Return the complaint about a problem in the text at `key` of the body."""
    place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
    return Complaint(pointer((key,)), place + problem.message, problem.hint, line=problem.line)

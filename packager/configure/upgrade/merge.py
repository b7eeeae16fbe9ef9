"""Merges two versions of a text with the version that both come from, line by line (diff3).

Lines that occur once in each of two texts are matched first, in the longest order that both have; the lines between
them by the shortest list of changes (`lines`). No line counts for less than another, blank lines included.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple

from packager.configure.upgrade import lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class TextPart(NamedTuple):
    """A part of the three texts.

    Attributes:
        at: The index of its first line in the user's text.
        base: The lines of the text that both come from.
        yours: The user's lines.
        theirs: The lines of the other new text.
    """

    at: int
    base: list[bytes]
    yours: list[bytes]
    theirs: list[bytes]

    @property
    def merged(self) -> list[bytes] | None:
        """The lines of the result; None where both changed the same lines, and not alike."""
        if self.yours in (self.base, self.theirs):
            return self.theirs
        return self.yours if self.theirs == self.base else None


def sections(base: Sequence[bytes], yours: Sequence[bytes], theirs: Sequence[bytes]) -> Iterator[TextPart]:
    """Yield the parts of the three texts in order: lines that all three have, and what is between these."""
    in_yours, in_theirs = dict(_matches(base, yours)), dict(_matches(base, theirs))
    at = yours_at = theirs_at = 0
    for line in sorted(in_yours.keys() & in_theirs.keys()):
        yours_line, theirs_line = in_yours[line], in_theirs[line]
        yield from _section(yours_at, base[at:line], yours[yours_at:yours_line], theirs[theirs_at:theirs_line])
        yield TextPart(yours_line, [base[line]], [base[line]], [base[line]])
        at, yours_at, theirs_at = line + 1, yours_line + 1, theirs_line + 1
    yield from _section(yours_at, base[at:], yours[yours_at:], theirs[theirs_at:])


def _section(at: int, base: Sequence[bytes], yours: Sequence[bytes], theirs: Sequence[bytes]) -> Iterator[TextPart]:
    if base or yours or theirs:
        yield TextPart(at, list(base), list(yours), list(theirs))


def _matches(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of lines that count as the same line of two texts, in order."""
    at = new_at = 0
    end = lines.Hunk(len(old), len(old), len(new), len(new))
    for change in [*lines.settled(list(_changes(old, new)), old, new), end]:
        yield from zip(range(at, change.start), range(new_at, change.new_start), strict=True)
        at, new_at = change.end, change.new_end


def _changes(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[lines.Hunk]:
    """Yield the changes between the lines that occur once in each text."""
    at = new_at = 0
    for line, new_line in [*_anchors(old, new), (len(old), len(new))]:
        for change in lines.changes(old[at:line], new[new_at:new_line]):
            yield lines.Hunk(at + change.start, at + change.end, new_at + change.new_start, new_at + change.new_end)
        at, new_at = line + 1, new_line + 1


def _anchors(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the pairs of lines that occur once in each text: the most that are in the same order in both."""
    places = _unique(new)
    pairs = [(at, places[line]) for line, at in _unique(old).items() if line in places]
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [index]
        before.append(last[length - 1] if length else -1)
    anchors = []
    index = last[-1] if last else -1
    while index >= 0:
        anchors.append(pairs[index])
        index = before[index]
    return anchors[::-1]


def _unique(text: Sequence[bytes]) -> dict[bytes, int]:
    """Return the places of the lines that occur once, in order."""
    places: dict[bytes, int] = {}
    for at, line in enumerate(text):
        places[line] = -1 if line in places else at
    return {line: at for line, at in places.items() if at >= 0}

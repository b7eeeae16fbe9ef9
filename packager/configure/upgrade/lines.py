"""Compares texts line by line: the shortest list of changes, and its form as a patch.

The algorithm is the one of E. Myers, An O(ND) difference algorithm and its variations (1986). Its time grows with the
number of changes, so texts with too many of them count as rewritten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_CHANGES = 1_000
"""The most lines that are inserted and deleted; texts that differ in more count as rewritten between their ends."""

_MOST_STEPS = 4_000_000
"""The most comparisons of two lines, about a second."""

_CONTEXT = 3
"""The lines before and after a change in a patch."""


class Hunk(NamedTuple):
    """The lines `start` to `end` of a text that are replaced by `new_start` to `new_end` of another; from 0."""

    start: int
    end: int
    new_start: int
    new_end: int

    @property
    def is_movable(self) -> bool:
        """Whether lines are only inserted, or only deleted."""
        return (self.start == self.end) != (self.new_start == self.new_end)

    def moved(self, count: int) -> Hunk:
        """Return the change so many lines further down."""
        return Hunk(*(place + count for place in self))


def split(text: bytes) -> list[bytes]:
    """Return the lines of a text with their ends; only the last line may have none."""
    parts = text.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def changes(before: Sequence[bytes], after: Sequence[bytes]) -> list[Hunk]:
    """Return the changes that turn the lines `before` into `after`, in order."""
    least = min(len(before), len(after))
    start = next((at for at in range(least) if before[at] != after[at]), least)
    rest = least - start
    tail = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    old, new = before[start : len(before) - tail], after[start : len(after) - tail]
    pairs = _common(old, new)
    at, new_at = 0, 0
    result = []
    for line, new_line in [*(pairs or ()), (len(old), len(new))]:
        if line > at or new_line > new_at:
            result.append(Hunk(start + at, start + line, start + new_at, start + new_line))
        at, new_at = line + 1, new_line + 1
    return result


def settled(hunks: Sequence[Hunk], before: Sequence[bytes], after: Sequence[bytes]) -> list[Hunk]:
    """Return changes in the places in which GNU diff and git have them, where equal lines leave a choice.

    Lines that are only inserted, or only deleted, may as well be the equal lines above or below. They join the change
    above, if they reach it; otherwise they move down as far as possible (git, xdiff/xdiffi.c, xdl_change_compact).

    Args:
        hunks: The changes, in order.
        before: The lines of the old text.
        after: The lines of the new text.
    """
    joined: list[Hunk] = []
    for hunk in hunks:
        room = hunk.start - joined[-1].end if joined else -1
        if joined and _steps(hunk, before, after, room, is_up=True) == room:
            last = joined.pop()
            joined.append(Hunk(last.start, hunk.end - room, last.new_start, hunk.new_end - room))
        else:
            joined.append(hunk)
    result: list[Hunk] = []
    for hunk, limit in zip(joined, [*(following.start for following in joined[1:]), len(before)], strict=False):
        moved = hunk.moved(_steps(hunk, before, after, limit - hunk.end, is_up=False))
        if result and result[-1].end == moved.start:
            last = result.pop()
            moved = Hunk(last.start, moved.end, last.new_start, moved.new_end)
        result.append(moved)
    return result


def _steps(hunk: Hunk, before: Sequence[bytes], after: Sequence[bytes], room: int, *, is_up: bool) -> int:
    """Return how many lines an insertion or a deletion can move up or down, at most `room`; 0 for other changes."""
    if not hunk.is_movable:
        return 0
    text, start, end = (before, *hunk[:2]) if hunk.start < hunk.end else (after, *hunk[2:])
    place, moved, step = (hunk.start - 1, end - 1, -1) if is_up else (hunk.end, start, 1)
    equal = (before[place + step * count] == text[moved + step * count] for count in range(room))
    return next((count for count, is_equal in enumerate(equal) if not is_equal), room)


def _common(old: Sequence[bytes], new: Sequence[bytes]) -> list[tuple[int, int]] | None:
    """Return the places of a longest common subsequence of lines; None if that would take too long."""
    if not old or not new:
        return []
    reached = {1: 0}
    rounds: list[dict[int, int]] = []
    steps = 0
    for distance in range(min(len(old) + len(new), _MOST_CHANGES) + 1):
        rounds.append(dict(reached))
        for diagonal in range(-distance, distance + 1, 2):
            is_insertion = diagonal == -distance or (
                diagonal != distance and reached[diagonal - 1] < reached[diagonal + 1]
            )
            at = reached[diagonal + 1] if is_insertion else reached[diagonal - 1] + 1
            begin = at
            while at < len(old) and at - diagonal < len(new) and old[at] == new[at - diagonal]:
                at += 1
            steps += at - begin + 1
            reached[diagonal] = at
            if at >= len(old) and at - diagonal >= len(new):
                return _path(rounds, len(old), len(new))
        if steps > _MOST_STEPS:
            return None
    return None


def _path(rounds: list[dict[int, int]], at: int, new_at: int) -> list[tuple[int, int]]:
    """Return the pairs of equal lines on the shortest path, which ends at the ends of both texts."""
    pairs = []
    for distance in range(len(rounds) - 1, -1, -1):
        reached, diagonal = rounds[distance], at - new_at
        is_insertion = diagonal == -distance or (diagonal != distance and reached[diagonal - 1] < reached[diagonal + 1])
        last = diagonal + 1 if is_insertion else diagonal - 1
        begin = reached[last] if distance else 0
        begin_new = begin - last if distance else 0
        while at > begin and new_at > begin_new:
            at, new_at = at - 1, new_at - 1
            pairs.append((at, new_at))
        at, new_at = begin, begin_new
    return pairs[::-1]


def unified(before: Sequence[bytes], after: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the hunks of a unified patch, as lines with ends (POSIX, diff, "Diff -u Output Format")."""
    for group in _groups(changes(before, after)):
        start, end = max(group[0].start - _CONTEXT, 0), min(group[-1].end + _CONTEXT, len(before))
        new_start = group[0].new_start - (group[0].start - start)
        new_end = group[-1].new_end + (end - group[-1].end)
        yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n".encode()
        at = start
        for change in group:
            yield from _prefixed(b" ", before[at : change.start])
            yield from _prefixed(b"-", before[change.start : change.end])
            yield from _prefixed(b"+", after[change.new_start : change.new_end])
            at = change.end
        yield from _prefixed(b" ", before[at:end])


def _groups(changes: Sequence[Hunk]) -> Iterator[list[Hunk]]:
    """Yield changes that are so near to each other that they share a hunk."""
    group: list[Hunk] = []
    for change in changes:
        if group and change.start - group[-1].end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _range(start: int, end: int) -> str:
    count = end - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"


def _prefixed(mark: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"

"""Tests of the comparison of lines."""

from __future__ import annotations

from random import Random

from packager.configure.upgrade import lines


def text(random: Random) -> bytes:
    """A text of lines that repeat, perhaps without an end of its last line."""
    rows = [random.choice("abcdef") for _ in range(random.randrange(12))]
    return "\n".join(rows).encode() + b"\n" * random.randrange(2)


def applied(before: list[bytes], after: list[bytes]) -> list[bytes]:
    """Return `before` with the changes to `after` made in it."""
    result: list[bytes] = []
    at = 0
    for change in lines.changes(before, after):
        assert change.start >= at
        assert (change.start, change.new_start) != (change.end, change.new_end)
        result += before[at : change.start] + after[change.new_start : change.new_end]
        at = change.end
    return result + before[at:]


def test_changes_turn_one_text_into_the_other() -> None:
    random = Random(1)
    for _ in range(2_000):
        before, after = (lines.split(text(random)) for _ in range(2))
        assert applied(before, after) == after


def test_unified_separates_changes_and_marks_missing_end_of_last_line() -> None:
    hunks = b"".join(lines.unified(lines.split(b"a\nb"), lines.split(b"a\nb\n")))
    assert hunks == b"@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"
    before = [b"%d\n" % number for number in range(30)]
    after = [b"first\n", *before[1:20], b"added\n", *before[20:]]
    heads = [line for line in lines.unified(before, after) if line.startswith(b"@@")]
    assert heads == [b"@@ -1,4 +1,4 @@\n", b"@@ -18,6 +18,7 @@\n"]


def settled(before: str, after: str) -> list[tuple[int, ...]]:
    old, new = (text.encode().splitlines(keepends=True) for text in (before, after))
    return [tuple(hunk) for hunk in lines.settled(lines.changes(old, new), old, new)]


def test_insertion_among_equal_lines_joins_the_change_above_or_moves_down() -> None:
    """GNU diff and git do so: merges of repeated lines are then the same."""
    assert settled("a\nx\nb\n", "a\nx\nx\nb\n") == [(2, 2, 2, 3)]
    assert settled("a\nx\nx\nb\n", "a\nx\nb\n") == [(2, 3, 2, 2)]
    assert settled("a\nb\n\nx\n", "new\n\n\nx\n") == [(0, 2, 0, 2)]
    assert settled("a\nb\n", "a\nb\n") == []


def test_settled_changes_turn_one_text_into_the_other() -> None:
    for seed in range(20):
        random = Random(seed)
        old, new = ([random.choice((b"\n", b"x\n", b"y\n")) for _ in range(random.randrange(30))] for _ in range(2))
        result, at = [], 0
        for hunk in lines.settled(lines.changes(old, new), old, new):
            assert hunk.start >= at
            result += [*old[at : hunk.start], *new[hunk.new_start : hunk.new_end]]
            at = hunk.end
        assert result + old[at:] == new

"""Tests of the merge of lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from packager.configure.upgrade import lines, merge

TEXTS = some.lists(some.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n", b"e"]), max_size=12).map(b"".join)


def merged(base: bytes, yours: bytes, theirs: bytes) -> bytes | None:
    """Return the merged text; None for a conflict."""
    parts = [section.merged for section in merge.sections(*map(lines.split, (base, yours, theirs)))]
    return None if None in parts else b"".join(line for part in parts for line in part or ())


@given(TEXTS, TEXTS)
def test_version_that_one_side_changed_is_result(base: bytes, other: bytes) -> None:
    assert merged(base, other, base) == other
    assert merged(base, base, other) == other
    assert merged(base, other, other) == other


@given(TEXTS, TEXTS, TEXTS)
def test_merge_is_symmetric(base: bytes, yours: bytes, theirs: bytes) -> None:
    assert merged(base, yours, theirs) == merged(base, theirs, yours)


@given(TEXTS, TEXTS, TEXTS)
def test_sections_contain_each_line_of_all_texts(base: bytes, yours: bytes, theirs: bytes) -> None:
    texts = [text.splitlines(keepends=True) for text in (base, yours, theirs)]
    parts = list(merge.sections(*texts))
    for name, text in zip(("base", "yours", "theirs"), texts, strict=True):
        assert [line for part in parts for line in getattr(part, name)] == text
    at = 0
    for part in parts:
        assert part.at == at
        at += len(part.yours)


def test_changes_of_adjacent_lines_conflict() -> None:
    assert merged(b"a\nb\n", b"A\nb\n", b"a\nB\n") is None
    assert merged(b"a\n-\nb\n", b"A\n-\nb\n", b"a\n-\nB\n") == b"A\n-\nB\n"

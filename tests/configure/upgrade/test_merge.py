"""Tests of the merge of lines."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from packager.configure.upgrade import merge
from tests import tools
from tests.configure.upgrade.agreement import compare, merged, others, triple

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = some.lists(some.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n", b"\n", b"e"]), max_size=12).map(b"".join)


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


@pytest.mark.thorough
def test_merge_agrees_with_diff3_and_git(tmp_path: Path) -> None:
    """`python -m tests.configure.upgrade.agreement` compares 10,000 triples."""
    for program in ("diff3", "git"):
        tools.require(program)
    count = compare(300, Random(24), tmp_path)
    assert count.differing == []
    assert count.agreeing > 150
    assert count.conflicting <= 1
    assert count.conflicts > 30


@pytest.mark.thorough
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=some.tuples(TEXTS, TEXTS, TEXTS))
def test_merge_is_the_text_that_diff3_and_git_agree_on(texts: tuple[bytes, bytes, bytes], tmp_path: Path) -> None:
    for program in ("diff3", "git"):
        tools.require(program)
    agreed = others(texts, tmp_path).agreed
    assert agreed in (None, merged(*texts))


def test_texts_of_comparison_differ() -> None:
    random = Random(1)
    assert len({triple(random) for _ in range(100)}) > 90

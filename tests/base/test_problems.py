"""Problems: how many are listed, and which words are compared."""

from __future__ import annotations

from packager.base.problems import MAX_PROBLEMS, Problem, listed, ordered, similar


def _of_file(file: str, count: int) -> list[Problem]:
    return [Problem(file, line + 1, 1, "wrong") for line in range(count)]


def test_a_file_lists_its_first_problems_and_counts_the_others() -> None:
    problems = ordered([*reversed(_of_file("b", MAX_PROBLEMS + 20)), *_of_file("a", MAX_PROBLEMS)])
    assert problems[:MAX_PROBLEMS] == _of_file("a", MAX_PROBLEMS)
    assert problems[MAX_PROBLEMS:-1] == _of_file("b", MAX_PROBLEMS)
    assert str(problems[-1]) == "b:101:1: 20 more problems are not listed"


def test_problems_of_many_files_are_limited_together() -> None:
    problems = listed([Problem(f"{number:05}", 0, 0, "wrong") for number in range(40_000)])
    assert len(problems) == 1_001
    assert str(problems[-1]) == "01000: 39,000 more problems, from this file on, are not listed"


def test_similar_words_are_found_among_short_ones() -> None:
    for word, words in (("a" * 101, ["a" * 100]), ("same", ["same" + "e" * 97]), ("same", ["same"] * 501)):
        assert similar(word, words) is None
    assert similar("imge", ["x" * 500_000, "image"]) == "did you mean 'image'?"

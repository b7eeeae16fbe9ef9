"""The list of mutations fits the product; `python -m tests.mutations` makes them."""

from __future__ import annotations

from collections import Counter

from tests import mutations
from tests.demo import CHECKOUT


def test_each_mutation_still_applies() -> None:
    for mutation in mutations.read():
        text = (CHECKOUT / mutation.file).read_text(encoding="utf-8")
        assert text.count(mutation.old) == 1, f"{mutation.name}: change `old` or leave the mutation out"
        assert mutation.new != mutation.old


def test_the_tests_of_each_mutation_exist() -> None:
    for mutation in mutations.read():
        assert mutation.tests, mutation.name
        assert [path for path in mutation.tests if not (CHECKOUT / path).exists()] == [], mutation.name


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(one.name for one in mutations.read()).items() if count > 1] == []

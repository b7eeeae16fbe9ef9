"""The settings and the text of the language model in JAX; its training needs JAX, and is tested on a cluster."""

from pathlib import Path
from typing import Any

import pytest

from tests.payload.conftest import load_module

corpus = load_module("jax-gpt", "corpus")


def windows(length: int = 4, tokens: int = 1001) -> Any:
    return corpus.Windows(["x"], lambda _: iter(range(tokens)), length)


def test_texts_are_those_of_the_folder_or_the_standard_library(tmp_path: Path) -> None:
    for name, text in (("b.txt", "two"), ("a.md", "one"), ("c.csv", "no text")):
        (tmp_path / name).write_text(text)
    assert list(corpus.texts(tmp_path)) == ["one", "two"]
    assert sum(map(len, corpus.texts(tmp_path / "absent"))) == 4_000_000


def test_windows_overlap_and_short_text_is_refused() -> None:
    with pytest.raises(corpus.TextError, match="the text has 400 tokens; at least 401 are needed"):
        windows(tokens=400)
    assert windows().batch([0, 249]).tolist() == [[0, 1, 2, 3, 4], [996, 997, 998, 999, 1000]]


def test_each_epoch_takes_each_window_once_in_an_order_of_its_own() -> None:
    taken = windows()
    size = len(taken.training)
    epochs = [taken.of_step(step, size, seed=1) for step in (1, 2)]
    assert epochs[0] != epochs[1]
    assert [sorted(epoch) for epoch in epochs] == [taken.training] * 2
    assert set(taken.training).isdisjoint(taken.held_out)
    assert taken.of_step(2, 5, seed=1) == epochs[0][5:10]

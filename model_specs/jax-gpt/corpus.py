"""The text to train on: files of DATASET_DIR, or without any the source code of Python's standard library."""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SAMPLE_CHARACTERS = 4_000_000
"""As much of the standard library is read: enough for a first run, and tokenized within seconds."""

_HELD_OUT = 50  # one window in as many is for the evaluation


class TextError(Exception):
    """Text that cannot be read, or that is too short."""


def texts(folder: Path | None) -> Iterator[str]:
    """Yield the texts in the files of a folder, or without any in those of the standard library.

    Raises:
        TextError: A file is not UTF-8.
    """
    paths = folder.rglob("*") if folder and folder.is_dir() else ()
    files = sorted(path for path in paths if path.suffix in (".txt", ".md"))
    if not files:
        yield from _standard_library()
    for path in files:
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TextError(f"{path}: {error}") from error


def _standard_library() -> Iterator[str]:
    left = _SAMPLE_CHARACTERS
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")[:left]
        left -= len(text)
        if text:
            yield text


class Windows:
    """All texts as one sequence of tokens, cut into windows, some of which are held out for the evaluation."""

    def __init__(self, contents: list[str], encode: Callable[[str], Iterator[int]], length: int) -> None:
        """Tokenize the texts.

        Raises:
            TextError: There are fewer tokens than the windows need.
        """
        self._tokens = np.array([token for content in contents for token in encode(content)], dtype=np.int32)
        self._length = length
        self.digest = hashlib.sha256(self._tokens.tobytes()).hexdigest()
        number = (len(self._tokens) - 1) // length
        if number < 2 * _HELD_OUT:
            needed = 2 * _HELD_OUT * length + 1
            raise TextError(f"the text has {len(self._tokens):,} tokens; at least {needed:,} are needed")
        self.held_out = list(range(0, number, _HELD_OUT))
        self.training = [window for window in range(number) if window % _HELD_OUT]

    def batch(self, windows: list[int]) -> np.ndarray:
        """Return the tokens of windows, each with its next token at the end: shape [windows, length + 1]."""
        return np.stack([self._tokens[at * self._length : (at + 1) * self._length + 1] for at in windows])

    def of_step(self, step: int, size: int, seed: int) -> list[int]:
        """Return the windows of a step: the same for a run that was resumed. Each epoch has an order of its own."""
        positions = range((step - 1) * size, step * size)
        orders = {
            epoch: np.random.default_rng([seed, epoch]).permutation(len(self.training))
            for epoch in {position // len(self.training) for position in positions}
        }
        return [self.training[orders[at // len(self.training)][at % len(self.training)]] for at in positions]

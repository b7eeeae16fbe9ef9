"""The text to train on: files of DATASET_DIR, or without any the source code of Python's standard library."""

from __future__ import annotations

import hashlib
import json
import sysconfig
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SAMPLE_CHARACTERS = 4_000_000
"""As much of the standard library is read: enough for a first run, and tokenized within seconds."""

_SUFFIXES = {".txt", ".md", ".jsonl"}
_HELD_OUT = 50  # one window in as many is for the evaluation


class TextError(Exception):
    """Text that cannot be read, or that is too short."""


def texts(folder: Path | None) -> Iterator[str]:
    """Yield the texts of a folder: each file, and of a .jsonl file the `text` of each line.

    Raises:
        TextError: A file is not UTF-8, or a line of JSON has no text.
    """
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES) if folder and folder.is_dir() else []
    if not files:
        yield from _standard_library()
    for path in files:
        try:
            content = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TextError(f"{path}: {error}") from error
        if path.suffix == ".jsonl":
            yield from (_text_of(path, number, line) for number, line in enumerate(content.splitlines(), 1))
        else:
            yield content


def _text_of(path: Path, number: int, line: str) -> str:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise TextError(f"{path}:{number}: expected a JSON object in each line: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("text"), str):
        raise TextError(f"{path}:{number}: expected an object with a string 'text'")
    return content["text"]


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
        tokens = array("q")
        for content in contents:
            tokens.extend(encode(content))
        self.length = length
        self.digest = hashlib.sha256(tokens.tobytes()).hexdigest()
        number = (len(tokens) - 1) // length
        if number < 2 * _HELD_OUT:
            raise TextError(f"the text has {len(tokens):,} tokens; at least {2 * _HELD_OUT * length + 1:,} are needed")
        self._tokens = torch.tensor(tokens)
        self.held_out = list(range(0, number, _HELD_OUT))
        self.training = [window for window in range(number) if window % _HELD_OUT]

    def batch(self, windows: list[int]) -> torch.Tensor:
        """Return the tokens of windows, each with its next token at the end: shape [windows, length + 1]."""
        return torch.stack([self._tokens[at * self.length : (at + 1) * self.length + 1] for at in windows])

    def of_step(self, step: int, size: int, seed: int) -> list[int]:
        """Return the windows of a step: the same for a run that was resumed, on any number of processes.

        Each epoch takes all windows in an order of its own.
        """
        first = (step - 1) * size
        epoch, result = None, []
        for position in range(first, first + size):
            if epoch != position // len(self.training):
                epoch = position // len(self.training)
                order = torch.randperm(len(self.training), generator=torch.Generator().manual_seed(seed + epoch))
            result.append(self.training[int(order[position % len(self.training)])])
        return result

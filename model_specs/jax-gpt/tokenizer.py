"""Tokenizers in Hugging Face's layout: that of a base model, or one that is made from the text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tokenizers import Tokenizer as Fast
from tokenizers import decoders, models, pre_tokenizers, trainers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_END = "<|endoftext|>"
_FILE = "tokenizer.json"
_CONFIG = "tokenizer_config.json"


class TokenizerError(Exception):
    """A tokenizer that cannot be read."""


class Tokenizer:
    """A tokenizer, its configuration, and the token that ends a text."""

    def __init__(self, fast: Fast, config: dict[str, object]) -> None:
        end = config.get("eos_token")
        content = end["content"] if isinstance(end, dict) else end
        number = fast.token_to_id(content) if isinstance(content, str) else None
        if number is None:
            raise TokenizerError(f"{_CONFIG}: expected a token of the tokenizer as eos_token, found {end!r}")
        self.end, self._fast, self._config = number, fast, config

    @classmethod
    def train(cls, contents: list[str], size: int) -> Tokenizer:
        """Make a byte-level BPE tokenizer with at most `size` tokens."""
        fast = Fast(models.BPE())
        fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        fast.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(
            vocab_size=size, special_tokens=[_END], initial_alphabet=alphabet, show_progress=False
        )
        fast.train_from_iterator(contents, trainer)
        return cls(fast, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": _END, "bos_token": _END})

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read the tokenizer of a model.

        Raises:
            TokenizerError: A file is missing or invalid.
        """
        try:
            config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
            return cls(Fast.from_file(str(folder / _FILE)), config)
        except TokenizerError:
            raise
        except Exception as error:  # the library raises no narrower type
            raise TokenizerError(f"BASE_MODEL: the tokenizer in {folder} cannot be read: {error}") from error

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json."""
        self._fast.save(str(folder / _FILE))
        (folder / _CONFIG).write_text(json.dumps(self._config, indent=2) + "\n", encoding="utf-8")

    def encode(self, text: str) -> Iterator[int]:
        """Yield the tokens of a text, with one for its end."""
        yield from self._fast.encode(text, add_special_tokens=False).ids
        yield self.end

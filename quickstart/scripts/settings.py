"""What a person sets in mlops.env, checked before anything slow begins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MANY = 1_000_000_000


class SettingsError(Exception):
    """Keys that hold something else than they should: one line for each of them."""


@dataclass(frozen=True)
class Number:
    """A key that holds a number: a whole one where its default is whole."""

    key: str
    default: float
    lowest: float
    highest: float
    meaning: str

    def read(self, environ: Mapping[str, str]) -> float:
        """Return the key's value; an empty one (`KEY=` in mlops.env) counts as not set.

        Raises:
            SettingsError: the text is no number of that kind and range.
        """
        text = environ.get(self.key, "").strip()
        if not text:
            return self.default
        kind = type(self.default)
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        # No comparison with NaN is true: one line refuses words, "nan" and numbers out of range.
        if self.lowest <= value <= self.highest:
            return value
        expected = f"a{' whole' if kind is int else ''} number from {self.lowest:,} to {self.highest:,}"
        verbatim = any(character in text for character in "\"'#")
        hint = " (mlops.env is read as it stands: no quotes, no comment behind a value)" if verbatim else ""
        raise SettingsError(f"{self.key}: expected {expected}, found {text!r}{hint}")


NUMBERS = (
    Number("STEPS", 10, 1, _MANY, "training: steps in all, those before a restart too; inference: batches"),
    Number("BATCH_SIZE", 4, 1, 65_536, "images a step on each rank"),
    Number("IMAGE_SIZE", 224, 32, 2_048, "height and width of the images in pixels"),
    Number("SEED", 1, 0, 2**31 - 1, "of the first weights, of the order of the images and of their crops"),
    Number("LOG_EVERY", 5, 1, _MANY, "steps between two lines of progress"),
    Number("CHECKPOINT_EVERY", 500, 1, _MANY, "training: steps between two checkpoints; the last step makes one too"),
    Number("LEARNING_RATE", 0.1, 1e-9, 1e9, "training: for 256 images a step, scaled to the batch of all ranks"),
    Number("WARMUP_STEPS", 3, 0, _MANY, "inference: batches before the measured ones"),
)


@dataclass(frozen=True)
class Settings:
    """The values of one run."""

    output_dir: Path
    dataset_dir: Path | None
    steps: int
    batch_size: int
    image_size: int
    seed: int
    log_every: int
    checkpoint_every: int
    learning_rate: float
    warmup_steps: int


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read all keys.

    A relative folder (the unedited package has OUTPUT_DIR=ROOT/...) starts at the working directory, which the
    package sets to `/`, where the kubelet mounts relative paths too.

    Raises:
        SettingsError: naming all keys that are wrong, not only the first.
    """
    values: dict[str, Any] = {}
    problems = []
    for number in NUMBERS:
        try:
            values[number.key.lower()] = number.read(environ)
        except SettingsError as error:
            problems.append(str(error))
    output_dir, dataset_dir = environ.get("OUTPUT_DIR", ""), environ.get("DATASET_DIR", "")
    if not output_dir:
        problems.append("OUTPUT_DIR: expected a folder for checkpoints, found nothing")
    if problems:
        raise SettingsError("\n".join(problems))
    return Settings(Path(output_dir).absolute(), Path(dataset_dir).absolute() if dataset_dir else None, **values)


def describe_keys() -> str:
    """Return the table of keys that --help shows."""
    lines = ["environment (mlops.env), with defaults:"]
    lines += [f"  {number.key:<18}{number.default:<6}{number.meaning}" for number in NUMBERS]
    lines += [
        "  DATASET_DIR             folder of ImageNet TFRecords; the data is synthetic where there are none",
        "  OUTPUT_DIR              folder of checkpoint.npz; required, and training has to be able to write there",
    ]
    return "\n".join(lines)

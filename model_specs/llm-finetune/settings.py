"""The values of mlops.env, checked before anything slow begins."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_MANY = 1_000_000_000
# Key, default, lowest and highest value.
_NUMBERS = (
    ("STEPS", 60, 1, _MANY),
    ("BATCH_SIZE", 4, 1, 65_536),
    ("SEQUENCE_LENGTH", 256, 8, 131_072),
    ("GRADIENT_ACCUMULATION", 1, 1, 65_536),
    ("LEARNING_RATE", 1e-3, 1e-9, 10.0),
    ("WEIGHT_DECAY", 0.1, 0.0, 10.0),
    ("LORA_RANK", 0, 0, 4_096),
    ("SEED", 1, 0, 1_000_000),
    ("LOG_EVERY", 5, 1, _MANY),
    ("CHECKPOINT_EVERY", 50, 1, _MANY),
)


class SettingsError(Exception):
    """Keys with invalid values, one line for each."""


@dataclass(frozen=True)
class Settings:
    """The values of one run."""

    output_dir: Path
    checkpoint_dir: Path
    dataset_dir: Path | None
    base_model: Path | None
    steps: int
    batch_size: int
    sequence_length: int
    gradient_accumulation: int
    learning_rate: float
    weight_decay: float
    lora_rank: int
    seed: int
    log_every: int
    checkpoint_every: int


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read all keys; an empty one (`KEY=` in mlops.env) counts as not set.

    Raises:
        SettingsError: Some values are invalid; it names all of them.
    """
    values: dict[str, Any] = {}
    problems = []
    for key, default, lowest, highest in _NUMBERS:
        text = environ.get(key, "").strip()
        value = _number(text, type(default)) if text else default
        if not lowest <= value <= highest:  # not true of NaN either
            expected = f"a{' whole' if isinstance(default, int) else ''} number from {lowest:g} to {highest:,}"
            problems.append(f"{key}: expected {expected}, found {text!r}")
        values[key.lower()] = value
    folders = {key: environ.get(key, "").strip() for key in ("OUTPUT_DIR", "DATASET_DIR", "BASE_MODEL")}
    folders["CHECKPOINT_DIR"] = environ.get("CHECKPOINT_DIR", "").strip() or folders["OUTPUT_DIR"]
    if not folders["OUTPUT_DIR"]:
        problems.append("OUTPUT_DIR: expected a folder for the model and checkpoints, found nothing")
    if values["lora_rank"] and not folders["BASE_MODEL"]:
        problems.append("LORA_RANK: expected 0 without BASE_MODEL, since adapters change a model that exists")
    if folders["BASE_MODEL"] and not Path(folders["BASE_MODEL"], "config.json").is_file():
        problems.append(f"BASE_MODEL: expected a folder with config.json, found {folders['BASE_MODEL']!r}")
    if problems:
        raise SettingsError("\n".join(problems))
    # A relative folder (the unedited package has OUTPUT_DIR=ROOT/...) starts at the working directory, which is /.
    paths = {key.lower(): Path(value).absolute() if value else None for key, value in folders.items()}
    return Settings(**paths, **values)  # type: ignore[arg-type]


def require_writable(key: str, folder: Path) -> None:
    """Create a folder if it is missing, and write something, because network storage may ignore permission bits.

    Raises:
        SettingsError: The folder cannot be created, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(
            f"{key}: expected a folder that uid {os.getuid()}, gid {os.getgid()} can write to, "
            f"found {folder}: {error.strerror}"
        ) from error


def _number(text: str, kind: type) -> float:
    try:
        return kind(text)
    except ValueError:
        return math.nan

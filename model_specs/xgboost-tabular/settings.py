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
    ("ROUNDS", 100, 1, _MANY),
    ("MAX_DEPTH", 4, 1, 64),
    ("LEARNING_RATE", 0.1, 1e-9, 1.0),
    ("THREADS", 2, 1, 1_024),
    ("LOG_EVERY", 10, 1, _MANY),
    ("CHECKPOINT_EVERY", 50, 1, _MANY),
)


class SettingsError(Exception):
    """Keys with invalid values, one line for each."""


@dataclass(frozen=True)
class Settings:
    """The values of one run."""

    output_dir: Path
    dataset_dir: Path | None
    target: str
    rounds: int
    max_depth: int
    learning_rate: float
    threads: int
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
    output, dataset = (environ.get(key, "").strip() for key in ("OUTPUT_DIR", "DATASET_DIR"))
    if not output:
        problems.append("OUTPUT_DIR: expected a folder for checkpoints and the model, found nothing")
    if problems:
        raise SettingsError("\n".join(problems))
    # A relative folder (the unedited package has OUTPUT_DIR=ROOT/...) starts at the working directory, which is /.
    return Settings(
        output_dir=Path(output).absolute(),
        dataset_dir=Path(dataset).absolute() if dataset else None,
        target=environ.get("TARGET", "").strip() or "diagnosis",
        **values,
    )


def require_writable(folder: Path) -> None:
    """Create the folder if it is missing, and write something, because network storage may ignore permission bits.

    Raises:
        SettingsError: The folder cannot be created, or not be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SettingsError(
            f"OUTPUT_DIR: expected a folder that uid {os.getuid()}, gid {os.getgid()} can write to, "
            f"found {folder}: {error.strerror}"
        ) from error


def _number(text: str, kind: type) -> float:
    try:
        return kind(text)
    except ValueError:
        return math.nan

"""What a person sets in mlops.env, checked before anything slow begins."""

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
    ("STEPS", 10, 1, _MANY),
    ("BATCH_SIZE", 4, 1, 65_536),
    ("IMAGE_SIZE", 224, 32, 2_048),
    ("SEED", 1, 0, 1_000_000),
    ("LOG_EVERY", 5, 1, _MANY),
    ("CHECKPOINT_EVERY", 500, 1, _MANY),
    ("LEARNING_RATE", 0.1, 1e-9, 1_000),
)
_PRECISIONS = ("fp32", "bf16")


class SettingsError(Exception):
    """Keys that hold something else than they should: one line for each of them."""


@dataclass(frozen=True)
class Settings:
    """The values of one run."""

    output_dir: Path
    dataset_dir: Path | None
    precision: str
    steps: int
    batch_size: int
    image_size: int
    seed: int
    log_every: int
    checkpoint_every: int
    learning_rate: float


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read all keys; an empty one (`KEY=` in mlops.env) counts as not set.

    A relative folder (the unedited package has OUTPUT_DIR=ROOT/...) starts at the working directory, which the
    package sets to `/`, where the kubelet mounts relative paths too.

    Raises:
        SettingsError: naming all keys that are wrong, not only the first.
    """
    values: dict[str, Any] = {}
    problems = []
    for key, default, lowest, highest in _NUMBERS:
        text = environ.get(key, "").strip()
        value = _number(text, type(default)) if text else default
        # No comparison with NaN is true: one line refuses words, "nan" and numbers out of range.
        if not lowest <= value <= highest:
            expected = f"a{' whole' if isinstance(default, int) else ''} number from {lowest:,} to {highest:,}"
            problems.append(f"{key}: expected {expected}, found {text!r}")
        values[key.lower()] = value
    precision = environ.get("PRECISION", "") or "fp32"
    if precision not in _PRECISIONS:
        problems.append(f"PRECISION: expected {' or '.join(_PRECISIONS)}, found {precision!r}")
    output_dir, dataset_dir = environ.get("OUTPUT_DIR", ""), environ.get("DATASET_DIR", "")
    if not output_dir:
        problems.append("OUTPUT_DIR: expected a folder for checkpoints, found nothing")
    if problems:
        raise SettingsError("\n".join(problems))
    dataset = Path(dataset_dir).absolute() if dataset_dir else None
    return Settings(Path(output_dir).absolute(), dataset, precision, **values)


def require_writable(folder: Path) -> None:
    """Make the folder where it is missing, and write something: permission bits say little on a network disk.

    Raises:
        SettingsError: it cannot be made, or not be written to.
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

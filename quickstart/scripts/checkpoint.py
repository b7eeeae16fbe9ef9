"""The state of a training on disk: one .npz file, which NumPy alone can read."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FILE_NAME = "checkpoint.npz"
_ABOUT, _WEIGHTS, _MOMENTUM = "about", "weights", "momentum"


class CheckpointError(Exception):
    """A checkpoint cannot be written, or not be read as one of this model."""


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on where another one stopped; the arrays are in the model's order."""

    step: int
    precision: str
    weights: list[np.ndarray]
    momentum: list[np.ndarray]


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


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a file beside and rename it: neither a reader nor a crash ever meets half a checkpoint.

    Raises:
        CheckpointError: the disk is full, or the folder is gone.
    """
    path = folder / FILE_NAME
    beside = path.with_suffix(".partial")
    arrays = {_ABOUT: np.array(json.dumps({"step": checkpoint.step, "precision": checkpoint.precision}))}
    arrays |= {f"{_WEIGHTS}{index}": array for index, array in enumerate(checkpoint.weights)}
    arrays |= {f"{_MOMENTUM}{index}": array for index, array in enumerate(checkpoint.momentum)}
    try:
        with beside.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror}") from error


def load(folder: Path) -> Checkpoint | None:
    """Read the folder's checkpoint; None when there is none.

    Raises:
        CheckpointError: the file is damaged, not a checkpoint, or not readable for this user.
    """
    path = folder / FILE_NAME
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            about = json.loads(str(arrays[_ABOUT]))
            return Checkpoint(about["step"], about["precision"], _series(arrays, _WEIGHTS), _series(arrays, _MOMENTUM))
    except FileNotFoundError:
        return None
    except Exception as error:  # NumPy raises whatever zipfile and zlib do
        raise CheckpointError(f"{path} cannot be read as a checkpoint: {error}; move it away to start anew") from error


def _series(arrays: Mapping[str, np.ndarray], name: str) -> list[np.ndarray]:
    count = sum(key.startswith(name) for key in arrays)
    return [arrays[f"{name}{index}"] for index in range(count)]


def require_same_layout(saved: Iterable[np.ndarray], own: Iterable[np.ndarray]) -> None:
    """Compare shapes and types of a checkpoint's arrays with the model's.

    Raises:
        CheckpointError: they belong to another model.
    """
    if [(array.shape, array.dtype) for array in saved] != [(array.shape, array.dtype) for array in own]:
        raise CheckpointError(f"{FILE_NAME} in OUTPUT_DIR is of another model; move it away to start anew")


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return a SHA-256 over every bit of the arrays."""
    sha256 = hashlib.sha256()
    for array in arrays:
        sha256.update(np.ascontiguousarray(array))
    return f"sha256:{sha256.hexdigest()}"

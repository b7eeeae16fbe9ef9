"""A checkpoint: a file with arrays of numbers, to read which runs no code."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path


class CheckpointError(Exception):
    """A checkpoint that cannot be read or written."""


def read(path: Path, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Return the arrays of a checkpoint.

    Raises:
        CheckpointError: It cannot be read, or its arrays have other shapes.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            values = [arrays[f"arr_{index}"] for index in range(len(shapes))]
        problem = "" if [value.shape for value in values] == shapes else "it is of another network"
    except Exception as error:  # noqa: BLE001 - NumPy raises whatever zipfile and zlib do
        problem = str(error)
    if problem:
        raise CheckpointError(f"{path} cannot be used: {problem}; move it away to start anew")
    return values


def write(path: Path, values: list[np.ndarray]) -> None:
    """Write a checkpoint.

    Raises:
        CheckpointError: It cannot be written.
    """
    unfinished = path.with_suffix(".partial")
    try:  # beside, and renamed: neither a reader nor a crash ever meets half a checkpoint
        with unfinished.open("wb") as file:
            np.savez(file, *values)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror}") from error

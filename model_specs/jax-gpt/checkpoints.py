"""Checkpoints and models: trees of arrays that are sharded over processes, each tree as one file of the first one."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.experimental import multihost_utils

if TYPE_CHECKING:
    from pathlib import Path

    from tokenizer import Tokenizer

_FOLDER = "checkpoints"
_MODEL = "model"
_KEPT = 2


class CheckpointError(Exception):
    """A checkpoint that cannot be used."""


def newest(output: Path) -> tuple[int, dict[str, np.ndarray]]:
    """Return the step and the arrays of the newest checkpoint; without a checkpoint, 0 and no arrays.

    Raises:
        CheckpointError: It cannot be read.
    """
    for path in _finished(output)[-1:]:
        try:
            with path.open("rb") as stream, np.load(stream) as arrays:
                return int(path.stem.removeprefix("step-")), dict(arrays)
        except Exception as error:  # NumPy raises whatever zipfile and zlib do
            raise CheckpointError(f"{path} cannot be used: {error} (move it away to resume from another)") from error
    return 0, {}


def require_same(arrays: dict[str, np.ndarray], state: Any) -> None:
    """See that a checkpoint has the arrays of a state.

    Raises:
        CheckpointError: It is of another network.
    """
    shapes = {name: array.shape for name, array in _named(state).items()}
    if arrays and {name: array.shape for name, array in arrays.items()} != shapes:
        raise CheckpointError("OUTPUT_DIR has checkpoints of another network: set another OUTPUT_DIR")


def restored(arrays: dict[str, np.ndarray], state: Any) -> Any:
    """Return a state like `state`, with the arrays that the first process has read, sharded alike."""
    named = _named(state)
    mine = [arrays[name] if arrays else np.zeros(array.shape, array.dtype) for name, array in named.items()]
    everywhere = multihost_utils.broadcast_one_to_all(mine)
    leaves = [
        jax.make_array_from_callback(old.shape, old.sharding, lambda index, new=new: np.asarray(new)[index])
        for new, old in zip(everywhere, named.values(), strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(state), leaves)


def save(output: Path, step: int, state: Any) -> None:
    """Write a checkpoint, and remove old ones. All processes take part; only the first one writes."""
    arrays = _gathered(state)
    if jax.process_index() == 0:
        folder = output / _FOLDER
        folder.mkdir(exist_ok=True)
        finished = folder / f"step-{step:08d}.npz"
        unfinished = folder / "unfinished.partial"  # one name, so that a process that is killed leaves only one file
        with unfinished.open("wb") as stream:
            np.savez(stream, **arrays)
            stream.flush()
            os.fsync(stream.fileno())  # a node that is lost leaves no empty checkpoint
        unfinished.rename(finished)
        for old in _finished(output)[:-_KEPT]:
            old.unlink(missing_ok=True)


def export(output: Path, weights: Any, config: dict[str, object], tokenizer: Tokenizer) -> Path:
    """Write the model; return its folder. All processes take part; only the first one writes."""
    arrays, folder = _gathered(weights), output / _MODEL
    if jax.process_index() == 0:
        unfinished = output / f"{_MODEL}.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        np.savez(unfinished / "weights.npz", **arrays)
        (unfinished / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tokenizer.save(unfinished)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    return folder


def _gathered(tree: Any) -> dict[str, np.ndarray]:
    return {name: multihost_utils.process_allgather(array, tiled=True) for name, array in _named(tree).items()}


def _named(tree: Any) -> dict[str, Any]:
    """Return the arrays of a tree by their places in it."""
    return {
        jax.tree_util.keystr(place, simple=True, separator="."): leaf for place, leaf in jax.tree.leaves_with_path(tree)
    }


def _finished(output: Path) -> list[Path]:
    return sorted((output / _FOLDER).glob("step-*.npz"))

"""Checkpoints, each a file in XGBoost's binary format, and the finished model."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from xgboost import Booster
from xgboost.core import XGBoostError

if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = "checkpoints"
_MODEL = "model"
_KEPT = 2


class CheckpointError(Exception):
    """A checkpoint that cannot be used."""


def newest(output: Path) -> bytes:
    """Return the content of the newest checkpoint; no bytes without a checkpoint.

    Raises:
        CheckpointError: The checkpoint cannot be read, or is not a model of XGBoost.
    """
    for path in _finished(output)[-1:]:
        try:
            content = path.read_bytes()
            if content:
                Booster(model_file=bytearray(content))
        except (OSError, XGBoostError) as error:
            text = str(error).partition("Stack trace")[0].strip()
            raise CheckpointError(f"{path} cannot be used: {text} (move it away to resume from another)") from error
        if not content:  # XGBoost would end the process
            raise CheckpointError(f"{path} cannot be used: it is empty (move it away to resume from another)")
        return content
    return b""


def save(output: Path, booster: Booster) -> None:
    """Write a checkpoint, and remove old ones."""
    folder = output / _FOLDER
    folder.mkdir(exist_ok=True)
    finished = folder / f"round-{booster.num_boosted_rounds():08d}.ubj"
    unfinished = folder / "unfinished.partial"  # one name, so that a process that is killed leaves only one file
    with unfinished.open("wb") as stream:
        stream.write(booster.save_raw("ubj"))
        stream.flush()
        os.fsync(stream.fileno())  # a node that is lost leaves no empty checkpoint
    unfinished.rename(finished)
    for old in _finished(output)[:-_KEPT]:
        old.unlink(missing_ok=True)


def export(output: Path, booster: Booster, metrics: dict[str, object]) -> Path:
    """Write the model and what it scored; return their folder."""
    folder, unfinished = output / _MODEL, output / f"{_MODEL}.partial"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    booster.save_model(unfinished / "model.json")
    (unfinished / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)
    return folder


def _finished(output: Path) -> list[Path]:
    return sorted((output / _FOLDER).glob("round-*.ubj"))

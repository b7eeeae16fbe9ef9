import importlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

checkpoint, settings = importlib.import_module("checkpoint"), importlib.import_module("settings")


def example(step: int = 7) -> Any:
    weights = [np.arange(6, dtype=np.float32).reshape(2, 3) + index for index in range(12)]
    return checkpoint.Checkpoint(step, "bf16", weights, [-array for array in weights])


def test_load_returns_saved_checkpoint(tmp_path: Path) -> None:
    saved = example()
    checkpoint.save(tmp_path, saved)
    loaded = checkpoint.load(tmp_path)
    assert (loaded.step, loaded.precision) == (7, "bf16")
    assert checkpoint.digest(loaded.weights) == checkpoint.digest(saved.weights)
    assert checkpoint.digest(loaded.momentum) == checkpoint.digest(saved.momentum)
    assert list(tmp_path.iterdir()) == [tmp_path / "checkpoint.npz"]


def test_interrupted_save_keeps_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, example(step=7))

    def fill_the_disk(file: Any, **_: Any) -> None:
        file.write(b"half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill_the_disk)
    with pytest.raises(checkpoint.CheckpointError, match=r"checkpoint.npz cannot be written: No space left on device$"):
        checkpoint.save(tmp_path, example(step=8))
    assert checkpoint.load(tmp_path).step == 7


def test_load_refuses_flipped_bit(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, example())
    path = tmp_path / "checkpoint.npz"
    content = bytearray(path.read_bytes())
    content[content.index(example().weights[3].tobytes())] ^= 1
    path.write_bytes(content)
    with pytest.raises(checkpoint.CheckpointError, match="move it away to start anew"):
        checkpoint.load(tmp_path)


def test_weights_of_another_model_are_refused() -> None:
    weights = example().weights
    checkpoint.require_same_layout(example().weights, weights)
    for other in (weights[:-1], [weights[0].T, *weights[1:]], [weights[0].astype(np.float64), *weights[1:]]):
        with pytest.raises(checkpoint.CheckpointError, match="is of another model"):
            checkpoint.require_same_layout(other, weights)


def test_require_writable_refuses_unwritable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(settings.SettingsError) as caught:
        checkpoint.require_writable(tmp_path / "file/output")
    assert str(caught.value) == (
        f"OUTPUT_DIR: expected a folder that uid {os.getuid()}, gid {os.getgid()} can write to, "
        f"found {tmp_path}/file/output: Not a directory"
    )

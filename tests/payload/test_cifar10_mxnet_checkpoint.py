"""The checkpoint of the MXNet model; its other parts need MXNet, and are tested on a cluster."""

import pickle
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.payload.conftest import load_module

VALUES = [np.array([1, 12], np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)]
SHAPES = [(2,), (2, 3)]


class Payload:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.fixture(scope="module")
def checkpoint() -> ModuleType:
    return load_module("cifar10-mxnet", "checkpoint")


@pytest.fixture
def path(checkpoint: ModuleType, tmp_path: Path) -> Path:
    checkpoint.write(tmp_path / "checkpoint.npz", VALUES)
    return tmp_path / "checkpoint.npz"


def test_checkpoint_has_the_values_that_were_written(checkpoint: ModuleType, path: Path) -> None:
    values = checkpoint.read(path, SHAPES)
    assert all(np.array_equal(*pair) for pair in zip(values, VALUES, strict=True))
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.npz"]


def test_failed_write_keeps_the_checkpoint_before(
    checkpoint: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint.os, "fsync", fail)
    with pytest.raises(checkpoint.CheckpointError, match=r"checkpoint\.npz cannot be written: No space left on device"):
        checkpoint.write(path, [VALUES[0] * 2, VALUES[1]])
    assert path.read_bytes() == before


def test_damaged_checkpoint_is_refused(checkpoint: ModuleType, path: Path) -> None:
    for keep in (0, 100):
        content = path.read_bytes()
        path.write_bytes(content[:keep])
        with pytest.raises(
            checkpoint.CheckpointError, match=r"checkpoint\.npz cannot be used: .*; move it away to start"
        ):
            checkpoint.read(path, SHAPES)


def test_checkpoint_of_another_network_is_refused(checkpoint: ModuleType, path: Path) -> None:
    with pytest.raises(checkpoint.CheckpointError, match="it is of another network; move it away"):
        checkpoint.read(path, [(2,), (3, 2)])


@pytest.mark.parametrize("kind", ["pickle", "array of objects"])
def test_reading_a_checkpoint_runs_no_code_of_it(checkpoint: ModuleType, path: Path, kind: str) -> None:
    payload = Payload(path.with_name("touched"))
    if kind == "pickle":
        path.write_bytes(pickle.dumps(payload))
    else:
        np.savez(path, VALUES[0], np.array([payload], object))
    with pytest.raises(checkpoint.CheckpointError, match="move it away to start anew"):
        checkpoint.read(path, SHAPES)
    assert not payload.path.exists()

"""The checkpoints of jax-gpt and xgboost-tabular, a file for each step, with stand-ins for JAX and XGBoost."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.payload.conftest import load_module

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Booster:
    """A model whose content is bytes; like XGBoost, it does not survive empty ones."""

    def __init__(self, model_file: bytearray | None = None) -> None:
        assert model_file is None or model_file, "XGBoost ends the process"
        self.rounds = 0

    def num_boosted_rounds(self) -> int:
        return self.rounds

    def save_raw(self, _format: str) -> bytes:
        return b"model"


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `checkpoints` of jax-gpt."""
    experimental = SimpleNamespace(multihost_utils=None)
    stand_in = SimpleNamespace(process_index=lambda: 0, experimental=experimental)
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    monkeypatch.setitem(sys.modules, "jax.experimental", experimental)
    module = load_module("jax-gpt", "checkpoints")
    monkeypatch.setattr(module, "_gathered", lambda state: state)
    return module


@pytest.fixture
def xgboost(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `checkpoints` of xgboost-tabular."""
    core = SimpleNamespace(XGBoostError=type("XGBoostError", (Exception,), {}))
    monkeypatch.setitem(sys.modules, "xgboost", SimpleNamespace(Booster=Booster, core=core))
    monkeypatch.setitem(sys.modules, "xgboost.core", core)
    return load_module("xgboost-tabular", "checkpoints")


def save_jax(module: ModuleType, output: Path, step: int) -> None:
    module.save(output, step, {"weights.a": np.arange(6.0)})


def save_xgboost(module: ModuleType, output: Path, step: int) -> None:
    booster = Booster()
    booster.rounds = step
    module.save(output, booster)


@pytest.fixture(params=["jax", "xgboost"])
def save(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], None]:
    """A function that saves a checkpoint of a step."""
    module = request.getfixturevalue(request.param)
    one = save_jax if request.param == "jax" else save_xgboost
    return lambda step: one(module, tmp_path, step)


def names(output: Path) -> list[str]:
    return sorted(path.stem for path in (output / "checkpoints").iterdir())


def test_processes_killed_while_they_save_leave_one_file(
    save: Callable[[int], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_file: int) -> None:
        raise SystemExit

    monkeypatch.setattr(os, "fsync", killed)
    for step in (1, 2, 3):
        with pytest.raises(SystemExit):
            save(step)
    assert names(tmp_path) == ["unfinished"]


def test_damaged_arrays_are_refused(jax: Any, tmp_path: Path) -> None:
    for size in (0, 200):
        save_jax(jax, tmp_path, 7)
        (path,) = (tmp_path / "checkpoints").iterdir()
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(jax.CheckpointError, match=r"step-00000007\.npz cannot be used: .*move it away"):
            jax.newest(tmp_path)


def test_empty_model_is_refused(xgboost: Any, tmp_path: Path) -> None:
    save_xgboost(xgboost, tmp_path, 7)
    assert xgboost.newest(tmp_path) == b"model"
    (path,) = (tmp_path / "checkpoints").iterdir()
    path.write_bytes(b"")
    with pytest.raises(xgboost.CheckpointError, match=r"round-00000007\.ubj cannot be used: it is empty"):
        xgboost.newest(tmp_path)

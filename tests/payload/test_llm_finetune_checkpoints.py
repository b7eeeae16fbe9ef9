"""The folder of checkpoints of the language model, with stand-ins for PyTorch, which is tested on a cluster."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest

from tests.payload.conftest import load_module

if TYPE_CHECKING:
    from pathlib import Path

MODULES = (
    "torch",
    "torch.distributed",
    "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict",
    "safetensors",
    "safetensors.torch",
    "llama",
    "lora",
)


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The checkpoints of a single process."""
    for name in MODULES:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    module: Any = load_module("llm-finetune", "checkpoints")
    monkeypatch.setattr(module, "get_state_dict", lambda *_arguments, **_options: ({}, {}))
    return module.Checkpoints(tmp_path, MagicMock(), MagicMock(), MagicMock(rank=0))


def test_save_removes_unfinished_checkpoints_of_killed_processes(checkpoints: Any, tmp_path: Path) -> None:
    for step in (3, 7, 9):
        (tmp_path / f"checkpoints/step-{step:08d}.partial").mkdir(parents=True)
        (tmp_path / f"checkpoints/step-{step:08d}.partial/weights").touch()
    for step in (7, 8, 9):
        checkpoints.save(step)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-00000008", "step-00000009"]

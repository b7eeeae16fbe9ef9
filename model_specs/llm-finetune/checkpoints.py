"""Checkpoints that resume on another number of processes, and models in Hugging Face's layout."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)

import lora
from llama import Llama, LlamaConfig, UnsupportedModelError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn
    from torch.optim import Optimizer

    from ranks import Ranks
    from tokenizer import Tokenizer

_FOLDER = "checkpoints"
_MODEL = "model"
_KEPT = 2
_WEIGHTS = "model.safetensors"
_INDEX = f"{_WEIGHTS}.index.json"


class Checkpoints:
    """The checkpoints in a folder that all nodes share: `checkpoints/step-00000050` and so on."""

    def __init__(self, folder: Path, network: nn.Module, optimizer: Optimizer, ranks: Ranks) -> None:
        self._folder = folder / _FOLDER
        self._network, self._optimizer, self._ranks = network, optimizer, ranks

    def _state(self) -> dict[str, Any]:
        # Frozen weights are those of the base model, which is read again.
        options = StateDictOptions(ignore_frozen_params=True)
        network, optimizer = get_state_dict(self._network, self._optimizer, options=options)
        return {"network": network, "optimizer": optimizer}

    def save(self, step: int) -> None:
        """Save the state after a step: each process writes its part, and rank 0 renames the folder when all have.

        Raises:
            AgreedError: A process cannot write.
        """
        name = f"step-{step:08d}"
        unfinished, finished, problem = self._folder / f"{name}.partial", self._folder / name, None
        try:
            if self._ranks.rank == 0:
                for old in self._folder.glob("step-*.partial"):  # of processes that were killed
                    shutil.rmtree(old, ignore_errors=True)
                unfinished.mkdir(parents=True)
        except OSError as error:
            problem = f"{unfinished} cannot be created: {error.strerror}"
        self._ranks.agree(problem)
        try:
            dcp.save(self._state(), checkpoint_id=unfinished, no_dist=not dist.is_initialized())
            if self._ranks.rank == 0 and not finished.exists():
                unfinished.rename(finished)
                for old in self._finished()[:-_KEPT]:
                    shutil.rmtree(old, ignore_errors=True)
        except Exception as error:  # noqa: BLE001 - each storage writer raises its own errors
            problem = f"{unfinished} cannot be written: {error}"
        self._ranks.agree(problem)

    def resume(self) -> int:
        """Load the newest checkpoint that rank 0 has; return its step, or 0 without one.

        Raises:
            AgreedError: Some process cannot read it.
        """
        newest = self._ranks.broadcast(self._finished()[-1:])
        if not newest:
            return 0
        state, problem = self._state(), None
        try:
            dcp.load(state, checkpoint_id=newest[0], no_dist=not dist.is_initialized())
            options = StateDictOptions(ignore_frozen_params=True, strict=False)
            set_state_dict(
                self._network,
                self._optimizer,
                model_state_dict=state["network"],
                optim_state_dict=state["optimizer"],
                options=options,
            )
        except Exception as error:  # noqa: BLE001 - each storage reader raises its own errors
            hint = "all nodes must share CHECKPOINT_DIR or OUTPUT_DIR; move the folder away to start again at step 0"
            problem = f"{newest[0]} cannot be used: {error} ({hint})"
        self._ranks.agree(problem)
        return int(newest[0].name.removeprefix("step-"))

    def _finished(self) -> list[Path]:
        return sorted(path for path in self._folder.glob("step-*") if path.suffix != ".partial")


def load_base(folder: Path) -> Llama:
    """Read a model in Hugging Face's layout.

    Raises:
        UnsupportedModelError: It is of another architecture, or its weights do not fit its config.json.
    """
    try:
        network = Llama(LlamaConfig.from_json(json.loads((folder / "config.json").read_text(encoding="utf-8"))))
        names = {_WEIGHTS}
        if (folder / _INDEX).exists():
            names = set(json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"].values())
        weights: dict[str, torch.Tensor] = {}
        for name in sorted(names):
            weights |= load_file(folder / name)
        if network.config.tie_word_embeddings:
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        network.load_state_dict(weights, assign=True)
        network.tie_weights()
        network.requires_grad_(True)
    except (OSError, KeyError, ValueError, RuntimeError) as error:
        raise UnsupportedModelError(f"BASE_MODEL: {folder} cannot be read: {error}") from error
    return network.float()


def export(output: Path, network: nn.Module, config: LlamaConfig, tokenizer: Tokenizer, ranks: Ranks) -> Path:
    """Write the model in Hugging Face's layout, with adapters merged; return its folder.

    Raises:
        AgreedError: Rank 0 cannot write it.
    """
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(network, options=options)  # all processes take part; only rank 0 gets the weights
    folder, problem = output / _MODEL, None
    if ranks.rank == 0:
        weights = lora.merged(weights)
        if config.tie_word_embeddings:
            weights.pop("lm_head.weight", None)
        unfinished = output / f"{_MODEL}.partial"
        try:
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            contiguous = {name: weight.contiguous() for name, weight in weights.items()}
            save_file(contiguous, unfinished / _WEIGHTS, metadata={"format": "pt"})
            (unfinished / _WEIGHTS).chmod(0o644)  # the library lets nobody else read it
            text = json.dumps(config.to_json(torch.float32), indent=2)
            (unfinished / "config.json").write_text(text + "\n", encoding="utf-8")
            tokenizer.save(unfinished)
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
        except OSError as error:
            problem = f"{folder} cannot be written: {error}"
    ranks.agree(problem)
    return folder

"""Low-rank adapters (arXiv:2106.09685): the weights of a model stay, and small matrices beside them are trained."""

from __future__ import annotations

import math

import torch
from torch import nn

from llama import DecoderLayer, Llama

_SCALE = 2.0
"""alpha / rank, with alpha = 2 x rank, as is usual."""


class LoraLinear(nn.Module):
    """A linear layer plus the product of two trained matrices, which is zero at the start."""

    def __init__(self, base: nn.Linear, rank: int) -> None:
        super().__init__()
        self.weight = base.weight
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features, device=base.weight.device))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank, device=base.weight.device))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [..., in_features] to [..., out_features]."""
        adapted = nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b)
        return nn.functional.linear(x, self.weight) + _SCALE * adapted


def adapt(network: Llama, rank: int) -> None:
    """Put an adapter beside every projection of the layers, and freeze all other weights."""
    network.requires_grad_(False)
    for layer in network.model.layers:
        assert isinstance(layer, DecoderLayer)
        for block in (layer.self_attn, layer.mlp):
            for name, child in list(block.named_children()):
                adapter = LoraLinear(child, rank)
                adapter.weight.requires_grad_(False)
                setattr(block, name, adapter)


def merged(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights of the model with the adapters added to them."""
    result = {name: weight for name, weight in weights.items() if not name.endswith(("lora_a", "lora_b"))}
    for name, first in weights.items():
        if name.endswith("lora_a"):
            layer = name.removesuffix("lora_a")
            change = weights[f"{layer}lora_b"].float() @ first.float()
            base = result[f"{layer}weight"]
            result[f"{layer}weight"] = (base.float() + _SCALE * change).to(base.dtype)
    return result

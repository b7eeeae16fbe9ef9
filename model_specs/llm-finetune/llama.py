"""A causal language model of the Llama family.

The modules have the names of Hugging Face's `LlamaForCausalLM`, so the names of the weights are those of its
checkpoints: `model.layers.0.self_attn.q_proj.weight` and so on. References: RMSNorm (arXiv:1910.07467), rotary
embeddings (arXiv:2104.09864), grouped-query attention (arXiv:2305.13245), SwiGLU (arXiv:2002.05202).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Mapping

_INITIAL_STD = 0.02


class UnsupportedModelError(Exception):
    """A config.json that describes another architecture than this one."""


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a model, under the names of Hugging Face's config.json. The defaults have 10 million weights."""

    vocab_size: int = 4096
    hidden_size: int = 320
    intermediate_size: int = 864
    num_hidden_layers: int = 8
    num_attention_heads: int = 10
    num_key_value_heads: int = 5
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    tie_word_embeddings: bool = True

    @property
    def head_dim(self) -> int:
        """The size of the vectors of an attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_json(cls, config: Mapping[str, Any]) -> LlamaConfig:
        """Read a config.json.

        Raises:
            UnsupportedModelError: It describes a model that this module would compute wrongly.
        """
        problems = [
            f"{key}: expected {expected}, found {config[key]!r}"
            for key, expected in (
                ("model_type", "llama"),
                ("hidden_act", "silu"),
                ("attention_bias", False),
                ("mlp_bias", False),
                ("rope_scaling", None),
            )
            if key in config and config[key] != expected
        ]
        rotary = config.get("rope_parameters") or {}  # since transformers 5
        if rotary.get("rope_type", "default") != "default":
            problems.append(f"rope_type: expected 'default', found {rotary['rope_type']!r}")
        missing = [key for key in ("vocab_size", "hidden_size", "num_hidden_layers") if key not in config]
        problems += [f"{key}: missing" for key in missing]
        values = {key: config[key] for key in asdict(cls()) if config.get(key) is not None}
        values.setdefault("rope_theta", rotary.get("rope_theta", cls.rope_theta))
        values.setdefault("tie_word_embeddings", False)
        values.setdefault("num_key_value_heads", values.get("num_attention_heads"))
        if not problems:
            result = cls(**values)
            if config.get("head_dim") in (None, result.head_dim):
                return result
            problems.append(f"head_dim: expected {result.head_dim}, found {config['head_dim']}")
        raise UnsupportedModelError("\n".join(problems))

    def to_json(self, dtype: torch.dtype) -> dict[str, Any]:
        """Return the content of config.json, with the type of the saved weights."""
        constants = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "attention_bias": False,
            "mlp_bias": False,
            "head_dim": self.head_dim,
            "torch_dtype": str(dtype).removeprefix("torch."),
        }
        return {**constants, **asdict(self)}


class RMSNorm(nn.Module):
    """Scales each vector to a root mean square of 1, and multiplies it by weights."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize in float32, whatever the type of the input."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * scaled.to(x.dtype)


def rotations(config: LlamaConfig, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cosines and sines of the rotary embedding, each of shape [length, head_dim], in float32."""
    exponents = torch.arange(0, config.head_dim, 2, device=device, dtype=torch.float32) / config.head_dim
    angles = torch.outer(torch.arange(length, device=device, dtype=torch.float32), config.rope_theta**-exponents)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of x, of shape [batch, heads, length, head_dim]: the first half of a vector with the second."""
    first, second = x.float().chunk(2, dim=-1)
    return (x * cos + torch.cat((-second, first), dim=-1) * sin).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention in which several query heads share a head of keys and values."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.groups = config.num_attention_heads // config.num_key_value_heads
        keys = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.num_attention_heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(config.num_attention_heads * config.head_dim, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Map [batch, length, hidden_size] to the same shape."""
        batch, length, _ = x.shape
        query, key, value = (
            projection(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = rotate(query, cos, sin), rotate(key, cos, sin)
        key, value = (tensor.repeat_interleave(self.groups, dim=1) for tensor in (key, value))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """The SwiGLU block."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [..., hidden_size] to the same shape."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each after a norm and added to its input."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp = FeedForward(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Map [batch, length, hidden_size] to the same shape."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """The embedding, the layers and the last norm."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Llama(nn.Module):
    """The whole model: tokens in, logits of the next tokens out."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.tie_weights()

    def tie_weights(self) -> None:
        """Use the embedding as the output layer too, if the config says so."""
        if self.config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def initialize(self) -> None:
        """Draw new weights: normal, with smaller ones where a layer adds to its input (as in GPT-2)."""
        scale = 1 / math.sqrt(2 * self.config.num_hidden_layers)
        for name, weight in self.named_parameters():
            if weight.dim() == 1:
                nn.init.ones_(weight)
            else:
                is_added = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=_INITIAL_STD * (scale if is_added else 1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map tokens of shape [batch, length] to logits of shape [batch, length, vocab_size], in float32."""
        x = self.model.embed_tokens(tokens)
        cos, sin = rotations(self.config, tokens.shape[1], tokens.device)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.model.norm(x)).float()

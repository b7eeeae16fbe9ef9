"""A GPT with pre-norm blocks, rotary positions and tied embeddings, as functions of a tree of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

Weights = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """The shape of a network: 4 million weights, as it is."""

    vocabulary: int = 4_096
    layers: int = 4
    heads: int = 4
    width: int = 256


def initialize(config: Config, key: jax.Array) -> Weights:
    """Return random weights; those of the layers are stacked, for jax.lax.scan."""
    width, layers = config.width, config.layers
    shapes = {
        "attention": (layers, width, 3 * width),
        "attended": (layers, width, width),
        "expand": (layers, width, 4 * width),
        "contract": (layers, 4 * width, width),
    }
    embedding, *keys = jax.random.split(key, 1 + len(shapes))
    matrices = {
        name: jax.random.normal(one, shape) / math.sqrt(shape[1])
        for one, (name, shape) in zip(keys, shapes.items(), strict=True)
    }
    scales = {"attention_scale": jnp.ones((layers, width)), "expand_scale": jnp.ones((layers, width))}
    return {
        "embedding": 0.02 * jax.random.normal(embedding, (config.vocabulary, width)),
        "layers": matrices | scales,
        "scale": jnp.ones(width),
    }


def loss(weights: Weights, tokens: jax.Array, config: Config) -> jax.Array:
    """Return the mean loss of windows of tokens, each with its next token at the end."""
    hidden = weights["embedding"][tokens[:, :-1]]

    def layer(hidden: jax.Array, one: Weights) -> tuple[jax.Array, None]:
        hidden += _attention(one, _normalized(hidden, one["attention_scale"]), config.heads)
        inner = _normalized(hidden, one["expand_scale"])
        return hidden + jax.nn.gelu(inner @ one["expand"]) @ one["contract"], None

    hidden, _ = jax.lax.scan(layer, hidden, weights["layers"])
    logits = _normalized(hidden, weights["scale"]) @ weights["embedding"].T
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], axis=-1)
    return -chosen.mean()


def _normalized(hidden: jax.Array, scale: jax.Array) -> jax.Array:
    return scale * hidden * jax.lax.rsqrt(jnp.mean(hidden**2, axis=-1, keepdims=True) + 1e-6)


def _attention(weights: Weights, hidden: jax.Array, heads: int) -> jax.Array:
    batch, length, width = hidden.shape
    split = (hidden @ weights["attention"]).reshape(batch, length, 3, heads, width // heads)
    query, key, value = split[:, :, 0], split[:, :, 1], split[:, :, 2]
    attended = jax.nn.dot_product_attention(_rotated(query), _rotated(key), value, is_causal=True)
    return attended.reshape(batch, length, width) @ weights["attended"]


def _rotated(vectors: jax.Array) -> jax.Array:
    """Return queries or keys, of shape [batch, length, heads, size], turned by their positions (RoPE)."""
    length, size = vectors.shape[1], vectors.shape[3]
    frequencies = 10_000.0 ** -(jnp.arange(0, size, 2) / size)
    angles = jnp.outer(jnp.arange(length), frequencies)[:, None, :]
    first, second = jnp.split(vectors, 2, axis=-1)
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)

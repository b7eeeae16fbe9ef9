#!/usr/bin/env python3
"""Train a GPT on all processes that the JobSet starts, or on a single one.

It reads its settings from mlops.env (settings.py lists them), and prints a line of JSON for each step that it reports.
The last line says how much the loss on held-out text fell. SIGTERM ends it after a checkpoint, from which the next run
resumes.
"""

from __future__ import annotations

import functools
import json
import math
import os
import socket
import sys
import time
from dataclasses import asdict
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import gpt
from checkpoints import CheckpointError, export, newest, require_same, restored, save
from corpus import TextError, Windows, texts
from settings import Settings, SettingsError, read_settings, require_writable
from stopping import EXIT_STATUS, Stop
from tokenizer import Tokenizer, TokenizerError

_WARMUP_SHARE = 0.05
_EVALUATED = 32  # windows
_OTHERS_STOP_SECONDS = 60
_DECAY = 0.1
_BETAS = (0.9, 0.95)


class DivergedError(Exception):
    """A loss that is no number any more."""


def connect() -> None:
    """Connect to the other processes, by the variables that the JobSet sets; do nothing without them."""
    if address := os.environ.get("JAX_COORDINATOR_ADDRESS"):
        jax.config.update("jax_cpu_collectives_implementation", "gloo")  # between CPUs; GPUs have NCCL
        jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM from stopping.py
        number, process = int(os.environ["JAX_NUM_PROCESSES"]), int(os.environ["JAX_PROCESS_ID"])
        jax.distributed.initialize(address, number, process)


def say(text: str, *, everywhere: bool = False) -> None:
    """Write a line at once, of the first process only unless `everywhere`."""
    if everywhere or jax.process_index() == 0:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


class Training:
    """The network and its optimizer, sharded over all devices, and the number of steps taken."""

    def __init__(self, settings: Settings, windows: Windows, config: gpt.Config) -> None:
        self.settings, self.windows, self.config, self.step = settings, windows, config, 0
        self.mesh = jax.make_mesh((jax.device_count(),), ("data",), (AxisType.Auto,))
        create = functools.partial(_new_state, config=config, seed=settings.seed)
        self.shardings = jax.tree.map(self._sharding, jax.eval_shape(create))
        self.state = jax.jit(create, out_shardings=self.shardings)()
        update = functools.partial(_update, config=config, settings=settings)
        self._update = jax.jit(update, donate_argnums=0, out_shardings=(self.shardings, None))
        self._loss = jax.jit(functools.partial(gpt.loss, config=config))

    def _sharding(self, array: jax.ShapeDtypeStruct) -> NamedSharding:
        """Return how an array is split: along its first dimension that the devices divide, or not at all."""
        for place, size in enumerate(array.shape):
            if size % self.mesh.size == 0:
                return NamedSharding(self.mesh, PartitionSpec(*[None] * place, "data"))
        return NamedSharding(self.mesh, PartitionSpec())

    def run(self, stop: Stop) -> bool:
        """Take the remaining steps; return False if SIGTERM has stopped any process before the last one.

        Raises:
            DivergedError: The loss is no number any more; the last step is not saved.
        """
        settings, size = self.settings, self.settings.batch_size * jax.process_count()
        first, started = self.step, time.monotonic()
        is_stopping = False
        while self.step < settings.steps and not is_stopping:
            self.step += 1
            tokens = self._batch(self.windows.of_step(self.step, size, settings.seed))
            requested = self._split(np.full(jax.local_device_count(), stop.requested.is_set()))
            self.state, report = self._update(self.state, tokens, requested)
            # All processes decide by the same numbers, so they decide alike, after the same step.
            loss, is_stopping = float(report["loss"]), bool(report["is_stopping"])
            if not math.isfinite(loss):
                message = (
                    f"step {self.step} has a loss of {loss}; LEARNING_RATE={settings.learning_rate:g} may be too high"
                )
                raise DivergedError(message)
            is_last = is_stopping or self.step == settings.steps
            if is_last or self.step % settings.log_every == 0:
                speed = size * settings.sequence_length * (self.step - first) / max(time.monotonic() - started, 1e-9)
                line = {"step": self.step, "loss": round(loss, 4), "tokens_per_second": round(speed)}
                say(json.dumps(line))
            if is_last or self.step % settings.checkpoint_every == 0:
                save(settings.output_dir, self.step, self.state)
        return self.step >= settings.steps

    def evaluate(self) -> float:
        """Return the mean loss on held-out windows; each process computes on a part of them."""
        number = _EVALUATED // jax.device_count() * jax.device_count() or jax.device_count()
        windows = [self.windows.held_out[at % len(self.windows.held_out)] for at in range(number)]
        return float(self._loss(self.state["weights"], self._batch(windows)))

    def _batch(self, windows: list[int]) -> jax.Array:
        """Return the tokens of windows, of which each process reads its part."""
        return self._split(self.windows.batch(windows[jax.process_index() :: jax.process_count()]))

    def _split(self, mine: np.ndarray) -> jax.Array:
        return jax.make_array_from_process_local_data(NamedSharding(self.mesh, PartitionSpec("data")), mine)


def _new_state(config: gpt.Config, seed: int) -> dict[str, Any]:
    weights = gpt.initialize(config, jax.random.key(seed))
    zeros = jax.tree.map(jnp.zeros_like, weights)
    return {"weights": weights, "mean": zeros, "square": zeros, "step": jnp.zeros((), jnp.int32)}


def _update(
    state: dict[str, Any], tokens: jax.Array, requested: jax.Array, *, config: gpt.Config, settings: Settings
) -> tuple[dict[str, Any], dict[str, jax.Array]]:
    """Take a step of AdamW (arXiv:1711.05101), with gradients clipped to a norm of 1."""
    loss, gradients = jax.value_and_grad(gpt.loss)(state["weights"], tokens, config)
    norm = jnp.sqrt(sum(jnp.sum(gradient**2) for gradient in jax.tree.leaves(gradients)))
    gradients = jax.tree.map(lambda gradient: gradient / jnp.maximum(norm, 1.0), gradients)
    step = state["step"] + 1
    rate = _learning_rate(step, settings)

    def moved(old: Any, new: Any, beta: float) -> Any:
        return jax.tree.map(lambda one, other: beta * one + (1 - beta) * other, old, new)

    mean = moved(state["mean"], gradients, _BETAS[0])
    square = moved(state["square"], jax.tree.map(jnp.square, gradients), _BETAS[1])

    def changed(weight: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
        direction = first / (1 - _BETAS[0] ** step) / (jnp.sqrt(second / (1 - _BETAS[1] ** step)) + 1e-8)
        return weight - rate * (direction + _DECAY * weight)

    weights = jax.tree.map(changed, state["weights"], mean, square)
    report = {"loss": loss, "is_stopping": jnp.any(requested)}
    return {"weights": weights, "mean": mean, "square": square, "step": step}, report


def _learning_rate(step: jax.Array, settings: Settings) -> jax.Array:
    """Return the step's rate: a linear warm-up, then a cosine down to a tenth (arXiv:1608.03983)."""
    warmup = math.ceil(settings.steps * _WARMUP_SHARE)
    progress = jnp.maximum(step - warmup, 0) / max(settings.steps - warmup, 1)
    cosine = 0.1 + 0.45 * (1 + jnp.cos(jnp.pi * progress))
    return settings.learning_rate * jnp.minimum(step / warmup, cosine)


def main() -> int:
    """Run the program; return 0 when done and 143 when stopped by SIGTERM, or end with 1 when refused or failed."""
    stop = Stop()
    try:
        return train(stop)
    except (SettingsError, TextError, TokenizerError, CheckpointError, DivergedError, OSError) as error:
        fail(str(error))
    except jax.errors.JaxRuntimeError as error:
        fail(f"JAX: {error} (if a process is gone, its log says why)")


def fail(problem: str) -> NoReturn:
    """Print a problem, and end the process: at its regular end, JAX would wait for the others."""
    sys.stderr.write("".join(f"ERROR: {line}\n" for line in problem.splitlines()))
    sys.stderr.flush()
    os._exit(1)


def train(stop: Stop) -> int:
    """Take the remaining steps, write the model, and print a summary as one line of JSON.

    Raises:
        SettingsError: A setting is wrong.
        TextError: The text cannot be read, or the processes have different texts.
        TokenizerError: The tokenizer cannot be made.
        CheckpointError: The newest checkpoint cannot be used.
        DivergedError: The training diverged.
        OSError: A checkpoint or the model cannot be written.
        JaxRuntimeError: A process is gone.
    """
    settings = read_settings(os.environ)
    contents = list(texts(settings.dataset_dir))
    tokenizer = Tokenizer.train(contents, gpt.Config.vocabulary)
    windows = Windows(contents, tokenizer.encode, settings.sequence_length)
    first = 0
    saved: dict[str, np.ndarray] = {}
    if os.environ.get("JAX_PROCESS_ID", "0") == "0":  # no other process reads or writes OUTPUT_DIR
        require_writable(settings.output_dir)
        first, saved = newest(settings.output_dir)
    connect()
    host, process = socket.gethostname(), f"process {jax.process_index()} of {jax.process_count()}"
    say(f"{process} on {host}: uid {os.getuid()}, gid {os.getgid()}, {jax.local_devices()[0]}", everywhere=True)
    digest = np.frombuffer(bytes.fromhex(windows.digest), np.uint8)
    if (multihost_utils.broadcast_one_to_all(digest) != digest).any():
        raise TextError("the processes read different text: DATASET_DIR must have the same files on all nodes")
    training = Training(settings, windows, gpt.Config())
    stop.deferred = True
    before = training.evaluate()
    require_same(saved, training.state)
    first = training.step = int(multihost_utils.broadcast_one_to_all(np.array(first)))
    if first:
        training.state = restored(saved, training.state)
    count = sum(weight.size for weight in jax.tree.leaves(training.state["weights"]))
    say(f"{count:,} weights; {len(windows.training):,} windows of text")
    say(f"{'resuming after' if first else 'starting at'} step {first} of {settings.steps}")
    if not training.run(stop):
        say(f"stopped by SIGTERM: step {training.step} is saved, and the next run resumes from it")
        if jax.process_count() > 1:
            jax.distributed.shutdown()  # or the others would be aborted when the first one ends
        # Kubernetes does not count a drain as a failure. If a process that was not drained ended by itself, that would.
        stop.requested.wait(_OTHERS_STOP_SECONDS)
        os._exit(EXIT_STATUS)
    loss = training.evaluate()
    folder = export(settings.output_dir, training.state["weights"], asdict(training.config), tokenizer)
    result = {
        "model": "jax-gpt",
        "processes": jax.process_count(),
        "steps": training.step,
        "resumed_from": first,
        "loss_before": round(before, 4),
        "loss": round(loss, 4),
        "loss_fell_by": round(before - loss, 4),
        "output": str(folder),
        "uid": os.getuid(),
        "gid": os.getgid(),
    }
    say(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())

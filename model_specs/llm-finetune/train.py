#!/usr/bin/env python3
"""Train or fine-tune a language model, on all processes that torchrun starts, or on a single process.

It reads its settings from mlops.env (settings.py lists them), and prints a line of JSON for each step that it reports.
The last line says how much the loss on held-out text fell. SIGTERM ends it after a checkpoint, from which the next run
resumes.
"""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import lora
from checkpoints import Checkpoints, export, load_base
from corpus import TextError, Windows, texts
from llama import Llama, LlamaConfig, UnsupportedModelError
from ranks import AgreedError, Ranks, print_line
from settings import Settings, SettingsError, read_settings, require_writable
from tokenizer import Tokenizer, TokenizerError

_WARMUP_SHARE = 0.05
_CLIPPED_NORM = 1.0
_EVALUATED = 32  # windows
_STOPPED = 128 + signal.SIGTERM
_OTHERS_STOP_SECONDS = 60.0


class Training:
    """The network and its optimizer on one process, and the number of steps taken."""

    def __init__(self, settings: Settings, ranks: Ranks, windows: Windows, network: Llama) -> None:
        self.settings, self.ranks, self.windows = settings, ranks, windows
        self.step = 0
        self.is_told_to_stop = False  # this process; SIGTERM sets it
        self.device = torch.device(ranks.device)
        self.is_bf16 = self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        self.network: nn.Module = _sharded(network, ranks, self.device, is_bf16=self.is_bf16)
        trained = [weight for weight in self.network.parameters() if weight.requires_grad]
        groups = [
            {"params": [weight for weight in trained if weight.dim() > 1], "weight_decay": settings.weight_decay},
            {"params": [weight for weight in trained if weight.dim() == 1], "weight_decay": 0.0},  # norms
        ]
        groups = [group for group in groups if group["params"]]
        self.optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.95))
        self.checkpoints = Checkpoints(settings.checkpoint_dir, self.network, self.optimizer, ranks)

    def run(self) -> None:
        """Take the remaining steps.

        Raises:
            AgreedError: The training diverged, or a checkpoint cannot be written.
        """
        settings, ranks = self.settings, self.ranks
        first, started = self.step, time.monotonic()
        is_last = self.step >= settings.steps
        while not is_last:
            self.step += 1
            for group in self.optimizer.param_groups:
                group["lr"] = self._learning_rate()
            loss, is_stopping = self._gradients()
            if not math.isfinite(loss):
                advice = f"LEARNING_RATE={settings.learning_rate:g} may be too high"
                raise AgreedError(f"step {self.step} has a loss of {loss}, and was not saved; {advice}")
            self._clip()
            self.optimizer.step()
            self.optimizer.zero_grad()
            is_last = is_stopping or self.step == settings.steps
            if is_last or self.step % settings.log_every == 0:
                tokens = self._step_windows * settings.sequence_length * (self.step - first)
                speed = round(tokens / max(time.monotonic() - started, 1e-9))
                rate = float(f"{self.optimizer.param_groups[0]['lr']:.3g}")
                line = {"step": self.step, "loss": round(loss, 4), "learning_rate": rate, "tokens_per_second": speed}
                ranks.say(json.dumps(line))
            if is_last or self.step % settings.checkpoint_every == 0:
                self.checkpoints.save(self.step)

    @property
    def _step_windows(self) -> int:
        """The number of windows that all processes take in a step."""
        return self.settings.batch_size * self.settings.gradient_accumulation * self.ranks.size

    def _gradients(self) -> tuple[float, bool]:
        """Add up the gradients of the step's batches; return the mean loss, and whether any process shall stop."""
        settings, ranks = self.settings, self.ranks
        mine = self.windows.of_step(self.step, self._step_windows, settings.seed)[ranks.rank :: ranks.size]
        total = torch.zeros((), device=self.device)
        for number in range(settings.gradient_accumulation):
            is_last = number == settings.gradient_accumulation - 1
            if dist.is_initialized():
                self.network.set_requires_gradient_sync(is_last)  # type: ignore[operator] # FSDP's method
            loss = self._loss(mine[number * settings.batch_size : (number + 1) * settings.batch_size])
            (loss / settings.gradient_accumulation).backward()
            total += loss.detach() / settings.gradient_accumulation
        message = torch.stack([total, torch.tensor(float(self.is_told_to_stop), device=self.device)])
        ranks.average([message])
        # All processes decide by the same numbers, so they decide alike, at the same step.
        return float(message[0]), bool(message[1] > 0)

    def _loss(self, windows: list[int]) -> torch.Tensor:
        tokens = self.windows.batch(windows).to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.is_bf16 and not dist.is_initialized()):
            logits = self.network(tokens[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    def _clip(self) -> None:
        nn.utils.clip_grad_norm_(self.network.parameters(), _CLIPPED_NORM)

    def _learning_rate(self) -> float:
        """Return the step's rate: a linear warm-up, then a cosine down to a tenth (arXiv:1608.03983)."""
        settings = self.settings
        warmup = math.ceil(settings.steps * _WARMUP_SHARE)
        if self.step <= warmup:
            return settings.learning_rate * self.step / warmup
        cosine = 0.5 * (1 + math.cos(math.pi * (self.step - warmup) / (settings.steps - warmup)))
        return settings.learning_rate * (0.1 + 0.9 * cosine)

    @torch.no_grad()
    def evaluate(self) -> float:
        """Return the mean loss on held-out windows, the same ones whatever the number of processes."""
        held_out = self.windows.held_out[:_EVALUATED]
        mine = held_out[self.ranks.rank :: self.ranks.size]
        most = -(-len(held_out) // self.ranks.size)  # each process calls the network as often: FSDP needs that
        sums = torch.zeros(2, device=self.device)
        for window in [*mine, *held_out[: most - len(mine)]]:
            loss = self._loss([window])
            if sums[1] < len(mine):
                sums += torch.stack([loss, torch.ones_like(loss)])
        if dist.is_initialized():
            dist.all_reduce(sums)
        return float(sums[0] / sums[1])


def _sharded(network: Llama, ranks: Ranks, device: torch.device, *, is_bf16: bool) -> nn.Module:
    """Move a network to the device; with several processes, each keeps a part of every weight (FSDP2)."""
    if not dist.is_initialized():
        return network.to(device)
    mesh = init_device_mesh(device.type, (ranks.size,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if is_bf16 else MixedPrecisionPolicy()
    for layer in network.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(network, mesh=mesh, mp_policy=policy)


def main() -> int:
    """Run the program; return 0 when done, 1 when refused or failed, 143 when stopped by SIGTERM."""
    ranks = Ranks.join()
    try:
        return train(ranks)
    except AgreedError as error:
        if ranks.rank == 0:
            sys.stderr.write("".join(f"ERROR: {line}\n" for line in str(error).splitlines()))
        return 1
    finally:
        ranks.leave()


def train(ranks: Ranks) -> int:
    """Take the remaining steps, write the model, and print a summary as one line of JSON.

    Raises:
        AgreedError: A setting is wrong, the processes read different text, or one of them cannot go on.
    """
    host = socket.gethostname()
    hosts = ranks.gather(host)
    print_line(f"rank {ranks.rank} of {ranks.size} on {host}: uid {os.getuid()}, gid {os.getgid()}, {ranks.device}")
    settings, tokenizer, windows, network = prepare(ranks)
    training = Training(settings, ranks, windows, network)
    signal.signal(signal.SIGTERM, lambda *_: setattr(training, "is_told_to_stop", True))
    before = training.evaluate()
    first = training.step = training.checkpoints.resume()
    ranks.say(f"{'resuming after' if first else 'starting at'} step {first} of {settings.steps}")
    training.run()
    if training.step < settings.steps:
        ranks.say(f"stopped by SIGTERM: step {training.step} is saved, and the next run resumes from it")
        ranks.leave()
        # Kubernetes does not count a drain as a failure. If a pod that was not drained ended by itself, that would.
        deadline = time.monotonic() + _OTHERS_STOP_SECONDS
        while not training.is_told_to_stop and time.monotonic() < deadline:
            time.sleep(0.1)
        return _STOPPED
    loss = training.evaluate()
    folder = export(settings.output_dir, training.network, network.config, tokenizer, ranks)
    result = {
        "model": "llm-finetune",
        "ranks": ranks.size,
        "hosts": sorted(set(hosts)),
        "precision": "bf16" if training.is_bf16 else "fp32",
        "steps": training.step,
        "resumed_from": first,
        "loss_before": round(before, 4),
        "loss": round(loss, 4),
        "loss_fell_by": round(before - loss, 4),
        "output": str(folder),
        "uid": os.getuid(),
        "gid": os.getgid(),
    }
    ranks.say(json.dumps(result))
    return 0


def prepare(ranks: Ranks) -> tuple[Settings, Tokenizer, Windows, Llama]:
    """Read the settings, the text and the base model, and check that all processes read the same.

    Raises:
        AgreedError: Something is wrong on a process.
    """
    problem, digest = None, ""
    try:
        settings = read_settings(os.environ)
        require_writable("OUTPUT_DIR", settings.output_dir)
        require_writable("CHECKPOINT_DIR", settings.checkpoint_dir)
        contents = list(texts(settings.dataset_dir))
        network, tokenizer = _network(settings, contents)
        windows = Windows(contents, tokenizer.encode, settings.sequence_length)
        digest = windows.digest
        count = sum(weight.numel() for weight in network.parameters())
        trained = sum(weight.numel() for weight in network.parameters() if weight.requires_grad)
        ranks.say(f"{count:,} weights, {trained:,} of them trained; {len(windows.training):,} windows of text")
    except (SettingsError, TextError, TokenizerError, UnsupportedModelError, OSError) as error:
        problem = str(error)
    ranks.agree(problem)
    if len(set(ranks.gather(digest))) > 1:
        raise AgreedError("the processes read different text: DATASET_DIR must have the same files on all nodes")
    return settings, tokenizer, windows, network


def _network(settings: Settings, contents: list[str]) -> tuple[Llama, Tokenizer]:
    """Return the base model with its tokenizer, or a new model with a tokenizer made from the text."""
    torch.manual_seed(settings.seed)
    if settings.base_model is None:
        config = LlamaConfig()
        network = Llama(config)
        network.initialize()
        return network, Tokenizer.train(contents, config.vocab_size)
    network = load_base(settings.base_model)
    if settings.lora_rank:
        lora.adapt(network, settings.lora_rank)
    return network, Tokenizer.load(settings.base_model)


if __name__ == "__main__":
    sys.exit(main())

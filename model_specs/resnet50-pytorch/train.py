#!/usr/bin/env python3
"""Train ResNet-50 v1.5, synchronously on all ranks that torchrun starts, or on a single process.

It reads its settings from mlops.env: PRECISION (fp32 or bf16), STEPS, BATCH_SIZE, IMAGE_SIZE, LEARNING_RATE, SEED,
LOG_EVERY, CHECKPOINT_EVERY, DATASET_DIR, OUTPUT_DIR. The last line of its output is JSON.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from images import batches_of, find_images, require_enough, synthetic_batches
from ranks import AgreedError, Ranks, print_line
from resnet import resnet50
from settings import Settings, SettingsError, read_settings, require_writable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from images import Batch

CHECKPOINT = "checkpoint.pt"
_MOMENTUM = 0.9
_WEIGHT_DECAY = 1e-4
_LABEL_SMOOTHING = 0.1
_REFERENCE_BATCH = 256
_WARMUP_SHARE = 0.05
_STOPPED = 128 + signal.SIGTERM
_OTHERS_STOP_SECONDS = 60.0


class Training:
    """The network and its optimizer on one rank, and how far they have come."""

    def __init__(self, settings: Settings, ranks: Ranks) -> None:
        self.settings, self.ranks = settings, ranks
        self.step = 0
        self.is_told_to_stop = False  # this rank; SIGTERM sets it
        torch.manual_seed(settings.seed)
        self.network = resnet50().to(ranks.device)
        decayed = [weight for weight in self.network.parameters() if weight.dim() > 1]
        others = [weight for weight in self.network.parameters() if weight.dim() == 1]  # normalisations and biases
        groups = [{"params": decayed, "weight_decay": _WEIGHT_DECAY}, {"params": others, "weight_decay": 0}]
        self.optimizer = torch.optim.SGD(groups, lr=0.1, momentum=_MOMENTUM)

    @property
    def checkpoint(self) -> Path:
        """The file that a run goes on from."""
        return self.settings.output_dir / CHECKPOINT

    def resume(self) -> None:
        """Take every rank's state from rank 0's checkpoint, when it has one: no other node needs to have the file.

        Raises:
            AgreedError: It cannot be read, or is of another network.
        """
        state, problem = None, None
        if self.ranks.rank == 0 and self.checkpoint.exists():
            try:
                state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
                self._restore(state)
            except Exception as error:  # noqa: BLE001 - PyTorch raises whatever pickle and zipfile do
                problem = f"{self.checkpoint} cannot be used: {error}; move it away to start anew"
        self.ranks.agree(problem)
        state = self.ranks.broadcast(state)
        if state is not None:
            self._restore(state)
            self.ranks.say(f"found a checkpoint of {self.step} steps in {self.settings.output_dir}")

    def _restore(self, state: dict[str, Any]) -> None:
        self.network.load_state_dict(state["network"])
        for weight, momentum in zip(self.network.parameters(), state["momentum"], strict=True):
            self.optimizer.state[weight]["momentum_buffer"] = momentum.to(weight.device)
        self.step = int(state["step"])

    def run(self, batches: Iterator[Batch]) -> tuple[float, float]:
        """Go through the steps that are left; return the last loss, and how many images a second that were.

        Raises:
            AgreedError: The training diverged, or the ranks have different weights.
        """
        settings, ranks = self.settings, self.ranks
        network = DistributedDataParallel(self.network) if dist.is_initialized() else self.network
        network.train()
        started, uncounted, speed, loss = time.monotonic(), self.step, 0.0, math.nan
        is_last = self.step >= settings.steps
        while not is_last:
            self.step += 1
            message = self._gradients(network, next(batches))
            ranks.average([message])
            # What is decided from it is decided alike, and at the same step, by all ranks.
            loss, is_stopping = float(message[0]), bool(message[1] > 0)
            if not math.isfinite(loss):
                raise AgreedError(
                    f"the training diverged: step {self.step} has a loss of {loss}. It was not saved; "
                    f"LEARNING_RATE={settings.learning_rate:g} may be too high"
                )
            for group in self.optimizer.param_groups:
                group["lr"] = self._learning_rate()
            self.optimizer.step()
            seconds = max(time.monotonic() - started, 1e-9)
            speed = settings.batch_size * ranks.size * (self.step - uncounted) / seconds
            is_last = is_stopping or self.step == settings.steps
            if is_last or self.step % settings.log_every == 0:
                ranks.say(f"step {self.step}/{settings.steps}: loss {loss:.4f}, {speed:.2f} images/s")
            if is_last or self.step % settings.checkpoint_every == 0:
                self.save()
        return loss, speed

    def _gradients(self, network: nn.Module, batch: Batch) -> torch.Tensor:
        """Compute the gradients, whose mean DistributedDataParallel takes; return the loss, and 1 to stop."""
        images, labels = (tensor.to(self.ranks.device) for tensor in batch)
        self.optimizer.zero_grad()
        # Weights stay float32. bfloat16 has the same range of exponents, so the loss need not be scaled.
        is_bf16 = self.settings.precision == "bf16"
        with torch.autocast(self.ranks.device.partition(":")[0], torch.bfloat16, enabled=is_bf16):
            logits = network(images)
        loss = nn.functional.cross_entropy(logits.float(), labels, label_smoothing=_LABEL_SMOOTHING)
        loss.backward()
        return torch.stack([loss.detach(), torch.tensor(float(self.is_told_to_stop), device=loss.device)])

    def _learning_rate(self) -> float:
        """Return the step's rate: warmed up linearly (Goyal et al., 2017), then falling along a cosine."""
        settings = self.settings
        peak = settings.learning_rate * settings.batch_size * self.ranks.size / _REFERENCE_BATCH
        warmup = math.ceil(settings.steps * _WARMUP_SHARE)
        if self.step <= warmup:
            return peak * self.step / warmup
        return peak * 0.5 * (1 + math.cos(math.pi * (self.step - warmup) / (settings.steps + 1 - warmup)))

    def save(self) -> None:
        """Save a checkpoint, if the weights are the same on every rank.

        Batch normalisation's statistics are the one part that no gradient moves: each rank has gathered those of its
        own images. Their mean stands for all images.

        Raises:
            AgreedError: The ranks have different weights, or the file cannot be written.
        """
        self.ranks.average(buffer for buffer in self.network.buffers() if buffer.is_floating_point())
        digests = self.ranks.gather(self.digest())
        if len(set(digests)) > 1:
            each = ", ".join(f"rank {rank} {digest[:15]}" for rank, digest in enumerate(digests))
            raise AgreedError(f"the ranks have different weights after step {self.step}, which was not saved: {each}")
        problem = None
        if self.ranks.rank == 0:
            # Tensors and a number: what PyTorch reads without running code of the file's.
            momentum = [self.optimizer.state[weight]["momentum_buffer"] for weight in self.network.parameters()]
            state = {"step": self.step, "network": self.network.state_dict(), "momentum": momentum}
            unfinished = self.checkpoint.with_suffix(".partial")
            try:  # beside, and renamed: neither a reader nor a crash ever meets half a checkpoint
                with unfinished.open("wb") as file:
                    torch.save(state, file)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.replace(self.checkpoint)
            except OSError as error:
                problem = f"{self.checkpoint} cannot be written: {error.strerror}"
        self.ranks.agree(problem)

    def digest(self) -> str:
        """Return a SHA-256 over every bit of the weights."""
        sha256 = hashlib.sha256()
        for tensor in self.network.state_dict().values():
            sha256.update(tensor.cpu().numpy().tobytes())
        return f"sha256:{sha256.hexdigest()}"


def main() -> int:
    """Run the program; return 0 when done, 1 when refused or failed, 143 when stopped by SIGTERM."""
    ranks = Ranks.join()
    try:
        return train(ranks)
    except AgreedError as error:
        if ranks.rank == 0:
            sys.stderr.write("".join(f"ERROR: {line}\n" for line in str(error).splitlines()))
        return 1


def train(ranks: Ranks) -> int:
    """Train what is left to train, and print what came of it as one line of JSON.

    Raises:
        AgreedError: A setting is wrong, the ranks do not see the same data, or one of them cannot go on.
    """
    settings, files = prepare(ranks)
    host = socket.gethostname()
    hosts = ranks.gather(host)
    print_line(f"rank {ranks.rank} of {ranks.size} on {host}: uid {os.getuid()}, gid {os.getgid()}, {ranks.device}")
    training = Training(settings, ranks)
    signal.signal(signal.SIGTERM, lambda *_: setattr(training, "is_told_to_stop", True))
    training.resume()
    first = training.step
    share = (settings.batch_size, settings.image_size)
    if files:
        batches = batches_of(files, *share, ranks.rank, ranks.size, settings.seed + first)
    else:
        batches = synthetic_batches(*share, settings.seed, ranks.rank)
    data = f"{len(files):,} images of {settings.dataset_dir}" if files else "synthetic data"
    ranks.say(f"training steps {first + 1} to {settings.steps} in {settings.precision} on {data}")
    loss, speed = training.run(batches)
    if training.step < settings.steps:
        ranks.say(f"stopped by SIGTERM: step {training.step} is saved, the same job goes on from there")
        ranks.leave()
        # Kubernetes does not count a drain as a failure. If a pod that was not drained ended by itself, that would.
        deadline = time.monotonic() + _OTHERS_STOP_SECONDS
        while not training.is_told_to_stop and time.monotonic() < deadline:
            time.sleep(0.1)
        return _STOPPED
    result = {
        "model": "resnet50v1-5-pytorch",
        "precision": settings.precision,
        "mode": "training",
        "ranks": ranks.size,
        "hosts": sorted(set(hosts)),
        "steps": training.step,
        "resumed_from": first,
        "images_per_second": round(speed, 2) if training.step > first else None,
        "loss": round(loss, 4) if training.step > first else None,
        "weights_digest": training.digest(),
        "checkpoint": str(training.checkpoint),
        "data": "images" if files else "synthetic",
        "uid": os.getuid(),
        "gid": os.getgid(),
    }
    ranks.say(json.dumps(result))
    return 0


def prepare(ranks: Ranks) -> tuple[Settings, list[tuple[Path, int]]]:
    """Check all that can be checked within a second, so that nobody waits a minute for a refusal.

    Raises:
        AgreedError: A setting is wrong, a folder is unusable, or the ranks do not see the same data.
    """
    try:
        settings = read_settings(os.environ)
        files = find_images(settings.dataset_dir)
        require_enough(files, settings.batch_size * ranks.size)
        if ranks.rank == 0:  # no other rank writes, and none needs to be able to
            require_writable(settings.output_dir)
        problem = None
    except (SettingsError, OSError) as error:
        problem = str(error)
    ranks.agree(problem)
    counts = ranks.gather(len(files))
    if len(set(counts)) > 1:
        raise AgreedError(f"DATASET_DIR: expected the same files on every rank, found {counts} on ranks 0, 1, ...")
    return settings, files


if __name__ == "__main__":
    sys.exit(main())

"""Synchronous data-parallel training: the same weights on every rank, from the first step to the last.

TensorFlow is here only behind a Replica, so that all of this can be tested without it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import checkpoint
from checkpoint import Checkpoint, CheckpointError
from ranks import AgreedError, Ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from images import Batch
    from replica import Replica
    from settings import Settings
    from stopping import Stop

_REFERENCE_BATCH = 256
_WARMUP_SHARE = 0.05  # of all steps: 4.5 of 90 epochs, close to the 5 of Goyal et al.


@dataclass(frozen=True)
class Job:
    """What every part of the way has to know."""

    precision: str
    settings: Settings
    ranks: Ranks


@dataclass(frozen=True)
class Outcome:
    """How far a run came; loss and speed are unknown when it had no step to do."""

    step: int
    digest: str
    loss: float | None = None
    images_per_second: float | None = None


def learning_rate(settings: Settings, ranks: int, step: int) -> float:
    """Return the rate of a step, the first being 1.

    It grows with the batch of all ranks and is warmed up linearly, as in Goyal et al., "Accurate, Large
    Minibatch SGD" (2017), and then falls along a cosine.
    """
    peak = settings.learning_rate * settings.batch_size * ranks / _REFERENCE_BATCH
    warmup = math.ceil(settings.steps * _WARMUP_SHARE)
    if step <= warmup:
        return peak * step / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (settings.steps + 1 - warmup)))


def load(job: Job) -> Checkpoint | None:
    """Return the checkpoint of an earlier run, on rank 0 only: no other rank's node needs to have the file.

    Raises:
        AgreedError: there is one, but it cannot be read.
    """
    saved, problem = None, None
    if job.ranks.rank == 0:
        try:
            saved = checkpoint.load(job.settings.output_dir)
        except CheckpointError as error:
            problem = str(error)
    job.ranks.agree(problem)
    if saved:
        job.ranks.say(f"found a checkpoint of {saved.step} steps ({saved.precision}) in {job.settings.output_dir}")
    return saved


def synchronise(job: Job, replica: Replica, saved: Checkpoint | None) -> None:
    """Give every rank the state of rank 0: that of its checkpoint, or its random first weights.

    Raises:
        AgreedError: the checkpoint belongs to another model.
    """
    weights, momentum = replica.weights(), replica.momentum()
    problem = None
    if saved:
        try:
            checkpoint.require_same_layout([*saved.weights, *saved.momentum], [*weights, *momentum])
        except CheckpointError as error:
            problem = str(error)
        weights, momentum = saved.weights, saved.momentum
    job.ranks.agree(problem)
    job.ranks.copy_from_first([*weights, *momentum])
    replica.restore(weights, momentum)


def fit(job: Job, replica: Replica, batches: Iterator[Batch], first: int, stop: Stop) -> Outcome:
    """Do the steps after the `first` ones: local gradients, their mean over all ranks, one update everywhere.

    It ends early, with a checkpoint, after a step during which any rank was told to stop.

    Raises:
        AgreedError: the training diverged, the ranks' weights differ, or a checkpoint cannot be written.
        JobError: this rank's data cannot be read.
    """
    settings, ranks = job.settings, job.ranks
    # One message a step: the gradients, behind them the loss, and whether this rank was told to stop. What is
    # decided from it is decided alike, and at the same step, by all of them.
    message = np.empty(replica.parameters + 2, np.float32)
    stop.deferred = True
    started, uncounted = time.monotonic(), first
    for step in range(first + 1, settings.steps + 1):
        message[:-1] = replica.gradients(next(batches))
        message[-1] = stop.requested
        ranks.average(message)
        gradients, loss, told_to_stop = message[:-2], float(message[-2]), message[-1] > 0
        if not np.isfinite(message).all():
            raise AgreedError(
                f"the training diverged: step {step} has a loss of {loss:.4g} and gradients that are not finite. "
                f"It was not saved; LEARNING_RATE={settings.learning_rate:g} may be too high"
            )
        replica.apply(gradients, learning_rate(settings, ranks.size, step))
        speed = settings.batch_size * ranks.size * (step - uncounted) / (time.monotonic() - started)
        last = told_to_stop or step == settings.steps
        if last or step == first + 1 or step % settings.log_every == 0:
            ranks.say(f"step {step}/{settings.steps}: loss {loss:.4f}, {speed:.2f} images/s")
        if last or step % settings.checkpoint_every == 0:
            digest = save(job, replica, step)
        if last:
            break
        if step == first + 1:  # TensorFlow compiles during the first step: it says nothing about the speed
            started, uncounted = time.monotonic(), step
    return Outcome(step, digest, round(loss, 4), round(speed, 2))


def save(job: Job, replica: Replica, step: int) -> str:
    """Save a checkpoint, if its weights are the same on every rank, and return their digest.

    Batch normalisation's moving statistics are the one part of the weights that no gradient moves: each rank
    has gathered those of its own images. Their mean stands for all images, and is the same everywhere.
    All other weights are equal to the last bit, on unlike processors too: what is computed apart, the gradients,
    is exchanged, and the update that follows multiplies and adds element by element.

    Raises:
        AgreedError: the ranks' weights differ, or the file cannot be written.
    """
    ranks = job.ranks
    replica.average_statistics(ranks.average)
    weights = replica.weights()
    digests = ranks.gather(checkpoint.digest(weights))
    if len(set(digests)) > 1:
        which = ", ".join(f"rank {rank} {digest[:15]}" for rank, digest in enumerate(digests))
        raise AgreedError(f"the ranks have different weights after step {step}, which was not saved: {which}")
    problem = None
    if ranks.rank == 0:
        try:
            checkpoint.save(job.settings.output_dir, Checkpoint(step, job.precision, weights, replica.momentum()))
        except CheckpointError as error:
            problem = str(error)
    ranks.agree(problem)
    return digests[0]

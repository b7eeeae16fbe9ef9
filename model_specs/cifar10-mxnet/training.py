"""The training of one worker, and its checkpoint."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

import checkpoint
from resnet import resnet20
from stopping import EXIT_STATUS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stopping import Stop

_CLASSES = 10
_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32  # the class, and the pixels
_PARAMETERS = "cifar10.params"
_CHECKPOINT = "checkpoint.npz"
_MOMENTUM = 0.9
_WEIGHT_DECAY = 1e-4
_OTHERS_STOP_SECONDS = 60.0


class SettingsError(Exception):
    """A key of mlops.env that holds something else than it should, or data that cannot be used."""


class Training:
    """The network, its momentum, and how far they have come: the same on all workers."""

    def __init__(self, store: mx.kv.KVStore, folder: Path, seed: int) -> None:
        self._store, self._checkpoint = store, folder / _CHECKPOINT
        mx.random.seed(seed)
        self.network = resnet20(_CLASSES)
        self.network.initialize(mx.init.Xavier(magnitude=2))
        self.network(mx.nd.zeros((1, *_SHAPE)))  # the sizes of all layers are known from now on
        self.network.hybridize()
        parameters = self.network.collect_params().values()
        self.weights = [parameter for parameter in parameters if parameter.grad_req != "null"]
        self._statistics = [parameter for parameter in parameters if parameter.grad_req == "null"]
        self._momentum = [mx.nd.zeros(weight.shape) for weight in self.weights]
        self._place = mx.nd.zeros(2)

    @property
    def place(self) -> tuple[int, int]:
        """The epoch, and the batch in it, both from 0, that come next."""
        epoch, batch = self._place.asnumpy()
        return int(epoch), int(batch)

    @property
    def _state(self) -> list[mx.nd.NDArray]:
        """All that a run resumes from. The first array has the length of a step's message, then come the weights."""
        parameters = [parameter.data() for parameter in (*self.weights, *self._statistics)]
        return [self._place, *parameters, *self._momentum]

    def resume(self) -> None:
        """Take the state of worker 0, which reads its checkpoint if it has one: the others need not have the file.

        Raises:
            CheckpointError: It cannot be read, or is of another network.
        """
        values = [array.asnumpy() for array in self._state]
        if self._store.rank == 0 and self._checkpoint.exists():
            values = checkpoint.read(self._checkpoint, [value.shape for value in values])
        share(values, self._state, self._store)

    def save(self, epoch: int, batch: int) -> None:
        """Save the state before a batch, if this is worker 0.

        The statistics of normalisations are those of worker 0's images. No gradient depends on them.

        Raises:
            CheckpointError: The file cannot be written.
        """
        self._place[:] = mx.nd.array([epoch, batch])
        if self._store.rank == 0:
            checkpoint.write(self._checkpoint, [array.asnumpy() for array in self._state])

    def step(self, loss: mx.nd.NDArray, rate: float, *, is_told_to_stop: bool) -> tuple[float, bool]:
        """Add up the gradients of all workers, and move the weights; return the mean loss, and whether all stop now.

        The servers have no optimizer, so that they keep the sum. The optimizer runs on every worker, with the same
        result, because MXNet gives no worker the momentum of a server.
        """
        message = mx.nd.concat(loss.mean(), mx.nd.array([float(is_told_to_stop)]), dim=0)
        for index, sum_ in enumerate([message, *(weight.grad() for weight in self.weights)]):
            self._store.push(index, sum_, priority=-index)
            self._store.pull(index, sum_, priority=-index)
        mean_of = 1 / (loss.shape[0] * self._store.num_workers)
        for weight, momentum in zip(self.weights, self._momentum, strict=True):
            arrays = (weight.data(), weight.grad(), momentum)
            how = {"lr": rate, "momentum": _MOMENTUM, "wd": _WEIGHT_DECAY, "rescale_grad": mean_of}
            mx.nd.sgd_mom_update(*arrays, out=weight.data(), **how)
        losses, stops = message.asnumpy()
        return float(losses) / self._store.num_workers, bool(stops > 0)


def train(stop: Stop) -> None:
    """Train what is left to train, and print what came of it as one line of JSON.

    Raises:
        SettingsError: A setting is wrong, or the training diverged.
        CheckpointError: A checkpoint cannot be read or written.
        SystemExit: SIGTERM has stopped a worker.
    """
    epochs, batch_size = whole("EPOCHS", 1), whole("BATCH_SIZE", 32)
    log_every, seed, rate = whole("LOG_EVERY", 20), whole("SEED", 1), positive("LEARNING_RATE", 0.1)
    output_dir = writable(Path(os.environ.get("OUTPUT_DIR") or "output").absolute())
    # With DMLC_ROLE there are others, and each step waits for the gradients of all of them (dist_sync).
    store = mx.kv.create("dist_sync" if "DMLC_ROLE" in os.environ else "local")
    rank, workers = store.rank, store.num_workers
    say(f"worker {rank} of {workers} on {socket.gethostname()}: uid {os.getuid()}, gid {os.getgid()}")
    data = Data(Path(os.environ.get("DATASET_DIR") or "absent"), batch_size, whole("BATCHES", 40), seed, store)
    say(f"training {epochs} epochs of {data.batches} batches with {batch_size} images each, on {data}")

    training = Training(store, output_dir, seed)
    training.resume()
    stop.deferred = True
    first_epoch, first_batch = training.place
    step = first = first_epoch * data.batches + first_batch
    if first:
        say(f"resuming from a checkpoint of {first} steps")
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    accuracy = mx.metric.Accuracy()
    speed = mean = 0.0
    for epoch in range(first // data.batches, epochs):
        accuracy.reset()
        began = since = time.monotonic()
        start = step % data.batches
        batches = islice(data.epoch(epoch), start, None)
        for number, (images, labels) in enumerate(batches, start=start + 1):
            with autograd.record():
                scores = training.network(images)
                loss = loss_of(scores, labels)
            loss.backward()
            mean, is_stopping = training.step(loss, rate, is_told_to_stop=stop.requested.is_set())
            step += 1
            if not np.isfinite(mean):
                raise SettingsError(f"the training diverged in epoch {epoch}: its loss is {mean}; lower LEARNING_RATE")
            accuracy.update(labels, scores)
            if number % log_every == 0:
                now = time.monotonic()
                speed, since = batch_size * log_every / (now - since), now
                place = f"Epoch[{epoch}] Batch [{number}]"
                say(f"{place}\tSpeed: {speed:.2f} samples/sec\taccuracy={accuracy.get()[1]:.6f}\tloss={mean:.6f}")
            if is_stopping and step < epochs * data.batches:
                mx.nd.waitall()  # the others need all that this worker still sends
                training.save(*divmod(step, data.batches))
                say(f"stopped by SIGTERM: step {step} is saved, the same job goes on from there")
                # Kubernetes does not count a drain as a failure. If a pod that was not drained ended, that would.
                stop.requested.wait(_OTHERS_STOP_SECONDS)
                raise SystemExit(EXIT_STATUS)
        training.save(epoch + 1, 0)
        say(f"Epoch[{epoch}] Train-accuracy={accuracy.get()[1]:.6f}")
        say(f"Epoch[{epoch}] Time cost={time.monotonic() - began:.3f}")
    if rank == 0:
        training.network.save_parameters(str(output_dir / _PARAMETERS))
    result = {
        "model": "cifar10-mxnet",
        "mode": "training",
        "rank": rank,
        "workers": workers,
        "host": socket.gethostname(),
        "epochs": epochs,
        "steps": step,
        "resumed_from": first,
        "samples_per_second": round(speed, 2),
        "accuracy": round(accuracy.get()[1], 4) if step > first else None,
        "loss": round(mean, 4) if step > first else None,
        "weights_digest": digest(training.weights),
        "data": data.kind,
        "uid": os.getuid(),
        "gid": os.getgid(),
    }
    say(json.dumps(result))


def share(values: list[np.ndarray], arrays: list[mx.nd.NDArray], store: mx.kv.KVStore) -> None:
    """Give the servers the values of worker 0, and set every worker's arrays to those of the servers.

    `init` returns on every worker when worker 0 has sent a value. With `gluon.Trainer`, which then asks for it at
    once, servers were nevertheless asked for weights that they did not have yet ("init 68 first"), and crashed: a
    barrier of MXNet may let a worker go on too early (apache/mxnet#7893). So worker 0 asks first, and two more barriers
    follow, one for each `init`, before the others ask.
    """
    for index, value in enumerate(values):
        store.init(index, mx.nd.array(value))
    if store.rank == 0:
        fetch(arrays, store)
    for index in range(len(arrays), len(arrays) + 2):
        store.init(index, mx.nd.zeros(1))
    fetch(arrays, store)


def fetch(arrays: list[mx.nd.NDArray], store: mx.kv.KVStore) -> None:
    """Set the arrays to those of the servers, and wait until they are here."""
    for index, array in enumerate(arrays):
        store.pull(index, array)
    mx.nd.waitall()


class Data:
    """This worker's share of CIFAR-10 (the binary version: `data_batch_1.bin`, ...), or one batch of random numbers."""

    def __init__(self, folder: Path, batch_size: int, batches: int, seed: int, store: mx.kv.KVStore) -> None:
        rank, workers = store.rank, store.num_workers
        self._batch_size, self._seed, self._rank = batch_size, seed, rank
        files = sorted(folder.rglob("data_batch_*.bin"))
        self.kind = "images" if files else "synthetic"
        self.batches = batches
        self._description = f"the images of {folder}" if files else "synthetic data"
        if not files:
            return
        records = [np.fromfile(file, np.uint8) for file in files]
        if any(len(content) == 0 or len(content) % _RECORD for content in records):
            raise SettingsError(f"DATASET_DIR: expected records of {_RECORD} bytes in {folder}/data_batch_*.bin")
        # Of whatever the workers' number leaves over, nobody has any: a step needs all of them.
        mine = np.concatenate(records).reshape(-1, _RECORD)[rank::workers]
        self._records = mine[: sum(len(content) for content in records) // _RECORD // workers]
        self.batches = len(self._records) // batch_size
        if self.batches == 0:
            raise SettingsError(
                f"DATASET_DIR: expected at least {batch_size * workers} images, found fewer in {folder}"
            )

    def __str__(self) -> str:
        return self._description

    def epoch(self, number: int) -> Iterator[tuple[mx.nd.NDArray, mx.nd.NDArray]]:
        """Yield the batches of an epoch, in an order of its own; half of the images are mirrored."""
        generator = np.random.default_rng([self._seed, self._rank, number if self.kind == "images" else 0])
        if self.kind == "synthetic":
            images = mx.nd.array(generator.standard_normal((self._batch_size, *_SHAPE), np.float32))
            labels = mx.nd.array(generator.integers(_CLASSES, size=self._batch_size))
            for _ in range(self.batches):
                yield images, labels
            return
        order = generator.permutation(len(self._records))
        for start in range(0, self.batches * self._batch_size, self._batch_size):
            records = self._records[order[start : start + self._batch_size]]
            pixels = records[:, 1:].reshape(-1, *_SHAPE).astype(np.float32) / 127.5 - 1
            is_mirrored = generator.random(self._batch_size) < 0.5
            pixels[is_mirrored] = pixels[is_mirrored, :, :, ::-1]
            yield mx.nd.array(pixels), mx.nd.array(records[:, 0])


def digest(weights: list[gluon.Parameter]) -> str:
    """Return a SHA-256 over the weights, which are the same on all workers."""
    sha256 = hashlib.sha256()
    for weight in weights:
        sha256.update(weight.data().asnumpy().tobytes())
    return f"sha256:{sha256.hexdigest()}"


def whole(key: str, default: int) -> int:
    """Return a key's whole number from 1; an empty one (`KEY=` in mlops.env) counts as not set.

    Raises:
        SettingsError: It is no such number.
    """
    text = os.environ.get(key, "").strip() or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"{key}: expected a whole number from 1, found {text!r}")
    return int(text)


def positive(key: str, default: float) -> float:
    """Return a key's number above 0. Raises SettingsError when it is none."""
    text = os.environ.get(key, "").strip() or str(default)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < np.inf:
        raise SettingsError(f"{key}: expected a number above 0, found {text!r}")
    return value


def writable(folder: Path) -> Path:
    """Return the folder, which is made where it is missing. Raises SettingsError when this user cannot write there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f".{_PARAMETERS}").touch()
        (folder / f".{_PARAMETERS}").unlink()
    except OSError as error:
        message = f"OUTPUT_DIR: expected a folder that uid {os.getuid()} can write to, found {folder}: {error.strerror}"
        raise SettingsError(message) from error
    return folder


def say(text: str) -> None:
    """Write a line at once: nobody waits for a buffer to fill."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

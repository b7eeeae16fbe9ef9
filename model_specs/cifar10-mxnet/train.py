#!/usr/bin/env python3
"""Train a small ResNet (He et al., 2015: 20 layers) on CIFAR-10: on one process, or with MXNet's parameter server.

The same program is started as scheduler, as server and as worker. `import mxnet` does the work of the first two, and
does not return in them: only a worker comes to what is below. The last line of a worker's output is JSON.

It reads its settings from mlops.env: EPOCHS, BATCHES, BATCH_SIZE, LEARNING_RATE, LOG_EVERY, SEED, DATASET_DIR,
OUTPUT_DIR.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon

from resnet import resnet20

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLASSES = 10
_SHAPE = (3, 32, 32)
_RECORD = 1 + 3 * 32 * 32  # the class, and the pixels
_PARAMETERS = "cifar10.params"


class SettingsError(Exception):
    """A key of mlops.env that holds something else than it should, or data that cannot be used."""


def main() -> None:
    """Run the program; exit with 0 when done, 1 when refused or failed, or what another part of it has exited with.

    What fails ends the process where the error is handled: as soon as nothing refers to it any more, nor to the store,
    MXNet would wait for the other workers.
    """
    try:
        train()
    except SettingsError as error:
        sys.stderr.write(f"ERROR: {error}\n")
        leave(1)
    except SystemExit as exit_:
        leave(exit_.code if isinstance(exit_.code, int) else 1)
    except Exception:  # noqa: BLE001 - whatever it is, the others have to hear of it
        traceback.print_exc()
        leave(1)
    leave(0)


def leave(code: int) -> None:
    """End the process, at once where it has failed: MXNet would wait for the other workers, and they for this one."""
    if code == 0:
        sys.exit()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def train() -> None:
    """Train, and print what came of it as one line of JSON.

    Raises:
        SettingsError: A setting is wrong, or the training diverged.
    """
    epochs, batch_size = whole("EPOCHS", 1), whole("BATCH_SIZE", 32)
    log_every, seed = whole("LOG_EVERY", 20), whole("SEED", 1)
    output_dir = writable(Path(os.environ.get("OUTPUT_DIR") or "output").absolute())
    # With DMLC_ROLE there are others, and each step waits for the gradients of all of them (dist_sync).
    store = mx.kv.create("dist_sync" if "DMLC_ROLE" in os.environ else "local")
    rank, workers = store.rank, store.num_workers
    say(f"worker {rank} of {workers} on {socket.gethostname()}: uid {os.getuid()}, gid {os.getgid()}")
    data = Data(Path(os.environ.get("DATASET_DIR") or "absent"), batch_size, whole("BATCHES", 40), seed, store)
    say(f"training {epochs} epochs of {data.batches} batches with {batch_size} images each, on {data}")

    mx.random.seed(seed)
    network = resnet20(_CLASSES)
    network.initialize(mx.init.Xavier(magnitude=2))
    network(mx.nd.zeros((1, *_SHAPE)))  # the sizes of all layers are known from now on
    network.hybridize()
    weights = [parameter for parameter in network.collect_params().values() if parameter.grad_req != "null"]
    rate, mean_of = positive("LEARNING_RATE", 0.1), 1 / (batch_size * workers)
    store.set_optimizer(mx.optimizer.SGD(momentum=0.9, learning_rate=rate, wd=1e-4, rescale_grad=mean_of))
    share(weights, store)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    accuracy = mx.metric.Accuracy()
    speed = mean = 0.0
    for epoch in range(epochs):
        accuracy.reset()
        began = since = time.monotonic()
        for number, (images, labels) in enumerate(data.epoch(epoch), start=1):
            with autograd.record():
                scores = network(images)
                loss = loss_of(scores, labels)
            loss.backward()
            for index, weight in enumerate(weights):
                store.push(index, weight.grad(), priority=-index)
                store.pull(index, weight.data(), priority=-index)
            accuracy.update(labels, scores)
            if number % log_every == 0:
                mean, now = float(loss.mean().asscalar()), time.monotonic()
                speed, since = batch_size * log_every / (now - since), now
                place = f"Epoch[{epoch}] Batch [{number}]"
                say(f"{place}\tSpeed: {speed:.2f} samples/sec\taccuracy={accuracy.get()[1]:.6f}\tloss={mean:.6f}")
        mean = float(loss.mean().asscalar())
        if not np.isfinite(mean):
            raise SettingsError(f"the training diverged in epoch {epoch}: its loss is {mean}; lower LEARNING_RATE")
        say(f"Epoch[{epoch}] Train-accuracy={accuracy.get()[1]:.6f}")
        say(f"Epoch[{epoch}] Time cost={time.monotonic() - began:.3f}")
    if rank == 0:
        network.save_parameters(str(output_dir / _PARAMETERS))
    result = {
        "model": "cifar10-mxnet",
        "mode": "training",
        "rank": rank,
        "workers": workers,
        "host": socket.gethostname(),
        "epochs": epochs,
        "samples_per_second": round(speed, 2),
        "accuracy": round(accuracy.get()[1], 4),
        "loss": round(mean, 4),
        "weights_digest": digest(network),
        "data": data.kind,
        "uid": os.getuid(),
        "gid": os.getgid(),
    }
    say(json.dumps(result))


def share(weights: list[gluon.Parameter], store: mx.kv.KVStore) -> None:
    """Give the servers the weights of worker 0, and every worker those of the servers.

    `init` returns on every worker when worker 0 has sent a weight. With `gluon.Trainer`, which then asks for it at
    once, servers were nevertheless asked for weights that they did not have yet ("init 68 first"), and crashed: a
    barrier of MXNet may let a worker go on too early (apache/mxnet#7893). So worker 0 asks first, and two more barriers
    follow, one for each `init`, before the others ask.
    """
    for index, weight in enumerate(weights):
        # A copy: what the network has used is in a layout of oneDNN, in which nothing can be received.
        store.init(index, mx.nd.array(weight.data().asnumpy()))
    if store.rank == 0:
        fetch(weights, store)
    for index in range(len(weights), len(weights) + 2):
        store.init(index, mx.nd.zeros(1))
    fetch(weights, store)


def fetch(weights: list[gluon.Parameter], store: mx.kv.KVStore) -> None:
    """Set the weights to those of the servers, and wait until they are here."""
    for index, weight in enumerate(weights):
        store.pull(index, weight.data())
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


def digest(network: gluon.Block) -> str:
    """Return a SHA-256 over the weights that the server has; the statistics of normalisations are each worker's own."""
    sha256 = hashlib.sha256()
    for parameter in network.collect_params().values():
        if parameter.grad_req != "null":
            sha256.update(parameter.data().asnumpy().tobytes())
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


if __name__ == "__main__":
    main()

"""Measure ResNet-50 v1.5 inference in FP32 on one process: throughput, latency and, with data, accuracy."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import socket
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

import checkpoint
from checkpoint import Checkpoint, CheckpointError
from ranks import JobError, print_error, print_line
from runtime import count_threads, start_tensorflow
from settings import Settings, SettingsError, describe_keys, read_settings
from shards import Source, find_shards
from stopping import Stop

if TYPE_CHECKING:
    import keras


@dataclass
class Measurement:
    """What the measured batches came to."""

    seconds: list[float] = field(default_factory=list)
    images: int = 0
    top1: int = 0
    top5: int = 0

    def add(self, seconds: float, scores: np.ndarray, labels: np.ndarray) -> None:
        """Count a batch: its time, and how many labels have the best score, or one of the best five."""
        best = np.argsort(scores, axis=1)[:, -5:] == labels[:, np.newaxis]
        self.seconds.append(seconds)
        self.images += len(labels)
        self.top1 += int(best[:, -1].sum())
        self.top5 += int(best.sum())

    def percentile(self, percent: float) -> float:
        """Return the milliseconds within which so many percent of the batches were done."""
        return round(float(np.percentile(self.seconds, percent)) * 1000, 2)


def main() -> int:
    """Run the program; return 0 when done, 1 when refused or failed."""
    argparse.ArgumentParser(
        description=__doc__, epilog=describe_keys(), formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    Stop()  # nothing is worth saving here: SIGTERM ends the process at once, even as a container's first
    try:
        settings = read_settings(os.environ)
        source = find_shards(settings.dataset_dir, "validation")
        saved = checkpoint.load(settings.output_dir)
        run(settings, source, saved)
    except (SettingsError, CheckpointError, JobError) as error:
        print_error(error)
        return 1
    return 0


def run(settings: Settings, source: Source, saved: Checkpoint | None) -> None:
    """Measure, and print what came of it as one line of JSON."""
    path = settings.output_dir / checkpoint.FILE_NAME
    host, uid, gid = socket.gethostname(), os.getuid(), os.getgid()
    threads = count_threads(ranks_here=1)
    print_line(f"inference on {host}: uid {uid}, gid {gid}, {threads} threads")
    print_line(f"weights: {path}, {saved.step} steps" if saved else f"*** RANDOM WEIGHTS: there is no {path} ***")
    print_line(str(source))
    start_tensorflow(threads, "fp32", settings.seed)
    from model import resnet50

    model = resnet50(settings.image_size)
    if saved:
        checkpoint.require_same_layout(saved.weights, [variable.numpy() for variable in model.variables])
        model.set_weights(saved.weights)
    measured = measure(model, settings, source)
    result = {
        "model": "resnet50v1-5",
        "precision": "fp32",
        "mode": "inference",
        "ranks": 1,
        "hosts": [host],
        "batches": len(measured.seconds),
        "images": measured.images,
        "images_per_second": round(measured.images / sum(measured.seconds), 2),
        "latency_ms": {f"p{percent}": measured.percentile(percent) for percent in (50, 90, 99)},
        "top1": round(measured.top1 / measured.images, 4) if source.files else None,
        "top5": round(measured.top5 / measured.images, 4) if source.files else None,
        "weights_digest": checkpoint.digest(variable.numpy() for variable in model.variables),
        "checkpoint": str(path) if saved else None,
        "data": source.kind,
        "uid": uid,
        "gid": gid,
    }
    print_line(json.dumps(result))


def measure(model: keras.Model, settings: Settings, source: Source) -> Measurement:
    """Time STEPS batches, or as many as there are; the first one also warms up, uncounted.

    Raises:
        JobError: the data cannot be read, or there is none.
    """
    import tensorflow as tf

    from images import synthetic_batches, validation_batches

    if source.files:
        batches = validation_batches(source.files, settings.batch_size, settings.image_size)
    else:
        batches = synthetic_batches(settings.batch_size, settings.image_size, settings.seed, rank=0)
    shape = (None, settings.image_size, settings.image_size, 3)  # the last batch may be smaller: no reason to recompile
    predict = tf.function(lambda images: model(images, training=False), input_signature=[tf.TensorSpec(shape)])
    first = next(batches, None)
    if first is None:
        raise JobError("DATASET_DIR: expected images in the TFRecords, found none")
    for _ in range(settings.warmup_steps):
        predict(first[0])
    measured = Measurement()
    for images, labels in itertools.islice(itertools.chain([first], batches), settings.steps):
        started = time.perf_counter()
        scores = predict(images).numpy()
        measured.add(time.perf_counter() - started, scores, labels.numpy())
        if len(measured.seconds) % settings.log_every == 0:
            print_line(f"batch {len(measured.seconds)}/{settings.steps}: {measured.seconds[-1] * 1000:.2f} ms")
    return measured


if __name__ == "__main__":
    sys.exit(main())

"""Batches of images and labels: from TFRecords of ImageNet's layout, or synthetic."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from model import CLASSES
from ranks import JobError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shards import Share

Batch = tuple[tf.Tensor, tf.Tensor]

_MEAN = (123.675, 116.28, 103.53)  # of ImageNet's training images, for each of R, G and B
_DEVIATION = (58.395, 57.12, 57.375)
_SHUFFLED_RECORDS = 1024  # of about 110 kB each, so some 110 MB a rank
_OPEN_FILES = 8  # a shard is ordered by nothing, but its neighbours in a batch should come from several


def synthetic_batches(batch_size: int, image_size: int, seed: int, rank: int) -> Iterator[Batch]:
    """Repeat a random batch, each rank its own: it costs no time, and the loss still falls as it should."""
    random = np.random.default_rng((seed, rank))
    images = random.standard_normal((batch_size, image_size, image_size, 3), dtype=np.float32)
    labels = random.integers(0, CLASSES, batch_size, dtype=np.int32)
    return itertools.repeat((tf.constant(images), tf.constant(labels)))


def training_batches(share: Share, batch_size: int, image_size: int, seed: int) -> Iterator[Batch]:
    """Repeat this rank's records for ever, in a new order each time; the same seed gives the same batches.

    Raises:
        JobError: a file is no TFRecord of ImageNet's layout, or all of them are empty.
    """
    files = tf.data.Dataset.from_tensor_slices(list(share.files)).shuffle(len(share.files), seed)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=_OPEN_FILES, num_parallel_calls=tf.data.AUTOTUNE)
    records = records.shard(share.stride, share.offset).shuffle(_SHUFFLED_RECORDS, seed).repeat()
    seeds = tf.data.Dataset.counter().map(lambda count: tf.stack([seed, count]))

    def decode(record: tf.Tensor, random: tf.Tensor) -> Batch:
        encoded, label = _parse(record)
        return _random_crop(encoded, image_size, random), label

    batches = tf.data.Dataset.zip(records, seeds).map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size)
    yield from _layout_checked(batches.prefetch(2))
    raise JobError("DATASET_DIR: expected images in the TFRecords of this rank, found none")


def validation_batches(files: tuple[str, ...], batch_size: int, image_size: int) -> Iterator[Batch]:
    """Go through the records once, in their order.

    Raises:
        JobError: a file is no TFRecord of ImageNet's layout.
    """

    def decode(record: tf.Tensor) -> Batch:
        encoded, label = _parse(record)
        return _central_crop(encoded, image_size), label

    records = tf.data.TFRecordDataset(list(files))
    yield from _layout_checked(records.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(batch_size).prefetch(2))


def _layout_checked(batches: tf.data.Dataset) -> Iterator[Batch]:
    try:
        yield from batches
    except tf.errors.OpError as error:
        reason = re.sub(r"\{\{.*?\}\}|\[Op:.*|\n.*", "", error.message).strip()  # what follows is the graph's own names
        raise JobError(f"DATASET_DIR: expected TFRecords of ImageNet's layout, found: {reason}") from error


def _parse(record: tf.Tensor) -> Batch:
    """ImageNet's TFRecords count classes from 1 (0 is "background", which no image has)."""
    layout = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }
    features = tf.io.parse_single_example(record, layout)
    label = tf.cast(features["image/class/label"], tf.int32) - 1
    in_range = tf.debugging.Assert((label >= 0) & (label < CLASSES), ["image/class/label is not 1 to 1000:", label + 1])
    with tf.control_dependencies([in_range]):
        return features["image/encoded"], tf.identity(label)


def _random_crop(encoded: tf.Tensor, size: int, random: tf.Tensor) -> tf.Tensor:
    """Cut out 8 % to 100 % of the image and flip half of them (Szegedy et al., "Going Deeper", 2014)."""
    begin, extent, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(encoded),
        tf.zeros([1, 0, 4]),
        random,
        min_object_covered=0.1,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1.0),
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], extent[:2]], axis=0)
    image = tf.image.decode_and_crop_jpeg(encoded, window, channels=3)
    image = tf.image.stateless_random_flip_left_right(image, random + 1)
    return _normalise(tf.image.resize(image, (size, size)))


def _central_crop(encoded: tf.Tensor, size: int) -> tf.Tensor:
    """Cut out the middle 7/8 of the shorter side (224 of 256 pixels, as everybody measures ImageNet)."""
    shape = tf.io.extract_jpeg_shape(encoded)
    side = tf.cast(tf.cast(tf.minimum(shape[0], shape[1]), tf.float32) * 7 / 8, tf.int32)
    window = tf.stack([(shape[0] - side) // 2, (shape[1] - side) // 2, side, side])
    return _normalise(tf.image.resize(tf.image.decode_and_crop_jpeg(encoded, window, channels=3), (size, size)))


def _normalise(image: tf.Tensor) -> tf.Tensor:
    return (image - tf.constant(_MEAN)) / tf.constant(_DEVIATION)

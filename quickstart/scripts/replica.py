"""One rank's copy of the model and of its optimizer, as arrays that MPI can move."""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras
import tensorflow as tf

from model import CLASSES, TRAINABLE_PARAMETERS, resnet50

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from images import Batch

_MOMENTUM = 0.9
_WEIGHT_DECAY = 1e-4
_LABEL_SMOOTHING = 0.1


class Replica:
    """Computes gradients and applies them; what happens to them in between is the caller's business."""

    parameters = TRAINABLE_PARAMETERS

    def __init__(self, image_size: int) -> None:
        self._model = resnet50(image_size)
        self._optimizer = keras.optimizers.SGD(momentum=_MOMENTUM)
        self._optimizer.build(self._model.trainable_variables)

    def gradients(self, batch: Batch) -> np.ndarray:
        """Return all gradients and behind them the loss, flat: the ranks then exchange a single array."""
        return self._gradients(*batch).numpy()

    def apply(self, gradients: np.ndarray, learning_rate: float) -> None:
        """Take one step of gradient descent."""
        self._apply(tf.constant(gradients), tf.constant(learning_rate))

    def weights(self) -> list[np.ndarray]:
        """Return all weights, the moving statistics among them."""
        return [variable.numpy() for variable in self._model.variables]

    def momentum(self) -> list[np.ndarray]:
        """Return the optimizer's memory of earlier gradients."""
        return [variable.numpy() for variable in self._optimizer.momentums]

    def restore(self, weights: list[np.ndarray], momentum: list[np.ndarray]) -> None:
        """Overwrite the state with what weights() and momentum() returned, here or on another rank."""
        for variable, array in zip(self._model.variables, weights, strict=True):
            variable.assign(array)
        for variable, array in zip(self._optimizer.momentums, momentum, strict=True):
            variable.assign(array)

    def average_statistics(self, average: Callable[[np.ndarray], None]) -> None:
        """Replace batch normalisation's moving means and variances by what `average` makes of them, in place."""
        for variable in self._model.non_trainable_variables:
            array = variable.numpy()
            average(array)
            variable.assign(array)

    @tf.function
    def _gradients(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        weights = [variable.value for variable in self._model.trainable_variables]
        # Normalisations and biases are not decayed (Goyal et al., 2017).
        decayed = [w.value for w in self._model.trainable_variables if w.path.endswith("kernel")]
        with tf.GradientTape() as tape:
            logits = self._model(images, training=True)
            targets = tf.one_hot(labels, CLASSES) * (1 - _LABEL_SMOOTHING) + _LABEL_SMOOTHING / CLASSES
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits))
            objective = loss + _WEIGHT_DECAY * tf.add_n([tf.nn.l2_loss(weight) for weight in decayed])
        gradients = tape.gradient(objective, weights)
        return tf.concat([*(tf.reshape(gradient, [-1]) for gradient in gradients), [loss]], axis=0)

    @tf.function
    def _apply(self, gradients: tf.Tensor, learning_rate: tf.Tensor) -> None:
        weights = self._model.trainable_variables
        parts = tf.split(gradients, [weight.shape.num_elements() for weight in weights])
        shaped = [tf.reshape(part, weight.shape) for part, weight in zip(parts, weights, strict=True)]
        self._optimizer.learning_rate.assign(learning_rate)
        self._optimizer.apply(shaped, weights)

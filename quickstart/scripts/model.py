"""ResNet-50 v1.5 in Keras."""

from __future__ import annotations

import keras
from keras import layers

CLASSES = 1000
TRAINABLE_PARAMETERS = 25_557_032
"""ResNet-50's published size to the digit; 53,120 moving statistics come on top."""

_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
_EXPANSION = 4


def resnet50(image_size: int) -> keras.Model:
    """Build the network of He et al., "Deep Residual Learning for Image Recognition" (2015), in version 1.5.

    v1.5 has the stride of a down-sampling bottleneck in its 3x3 convolution, v1 in the 1x1 before it, which
    then skips three quarters of its input: some 0.5 % of top-1 accuracy for some 5 % of speed (NVIDIA Deep
    Learning Examples, "ResNet-50 v1.5"; MLPerf's reference has it too). `keras.applications.ResNet50` is v1.

    Two starting values are from Goyal et al., "Accurate, Large Minibatch SGD" (2017): the last normalisation
    of a block starts at zero, so that the block starts as the identity; the classifier with a deviation of 0.01.
    """
    images = keras.Input((image_size, image_size, 3))
    x = _convolution(images, 64, kernel=7, stride=2)
    x = layers.ReLU()(_normalisation(x))
    x = layers.MaxPooling2D(3, strides=2)(layers.ZeroPadding2D(1)(x))
    for stage, (width, blocks) in enumerate(_STAGES):
        for block in range(blocks):
            x = _bottleneck(x, width, stride=2 if stage > 0 and block == 0 else 1, project=block == 0)
    x = layers.GlobalAveragePooling2D()(x)
    # float32 under bf16 too: the softmax of the loss needs the digits.
    logits = layers.Dense(CLASSES, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01), dtype="float32")(x)
    model = keras.Model(images, logits, name="resnet50v1-5")
    parameters = sum(variable.value.shape.num_elements() for variable in model.trainable_variables)
    assert parameters == TRAINABLE_PARAMETERS, f"{parameters} parameters are not ResNet-50's"
    return model


def _bottleneck(x: keras.KerasTensor, width: int, *, stride: int, project: bool) -> keras.KerasTensor:
    shortcut = x
    if project:
        shortcut = _normalisation(_convolution(x, width * _EXPANSION, kernel=1, stride=stride))
    x = layers.ReLU()(_normalisation(_convolution(x, width, kernel=1)))
    x = layers.ReLU()(_normalisation(_convolution(x, width, kernel=3, stride=stride)))  # v1 has this stride above
    x = _normalisation(_convolution(x, width * _EXPANSION, kernel=1), start_at_zero=True)
    return layers.ReLU()(layers.Add()([x, shortcut]))


def _convolution(x: keras.KerasTensor, filters: int, *, kernel: int, stride: int = 1) -> keras.KerasTensor:
    """Pad all sides alike: "same" would pad a strided convolution less at the top and the left."""
    if kernel > 1:
        x = layers.ZeroPadding2D(kernel // 2)(x)
    initializer = keras.initializers.VarianceScaling(2.0, mode="fan_out", distribution="untruncated_normal")
    return layers.Conv2D(filters, kernel, stride, use_bias=False, kernel_initializer=initializer)(x)


def _normalisation(x: keras.KerasTensor, *, start_at_zero: bool = False) -> keras.KerasTensor:
    gamma = "zeros" if start_at_zero else "ones"
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, gamma_initializer=gamma)(x)

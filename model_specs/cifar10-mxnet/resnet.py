"""ResNet-20 for images of 32 x 32 pixels (He et al., 2015, section 4.2)."""

from __future__ import annotations

from typing import Any

from mxnet.gluon import nn

_STAGES = ((16, 3, 1), (32, 3, 2), (64, 3, 2))  # channels, blocks, stride of the first block


def resnet20(classes: int) -> nn.HybridSequential:
    """Return the network, whose weights are not set yet: 0.27 million of them."""
    network = nn.HybridSequential()
    network.add(_convolution(16, 1), nn.BatchNorm(), nn.Activation("relu"))
    channels = 16
    for width, blocks, stride in _STAGES:
        for index in range(blocks):
            network.add(Block(channels, width, stride if index == 0 else 1))
            channels = width
    network.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(classes))
    return network


class Block(nn.HybridBlock):
    """Two convolutions, and a way past them."""

    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(
                _convolution(channels, stride),
                nn.BatchNorm(),
                nn.Activation("relu"),
                _convolution(channels, 1),
                nn.BatchNorm(),
            )
            self.shortcut = nn.HybridSequential()
            if inputs != channels:
                self.shortcut.add(nn.Conv2D(channels, 1, stride, use_bias=False), nn.BatchNorm())

    def hybrid_forward(self, functions: Any, images: Any) -> Any:
        """Return what the block makes of its input."""
        return functions.relu(self.body(images) + self.shortcut(images))


def _convolution(channels: int, stride: int) -> nn.Conv2D:
    return nn.Conv2D(channels, kernel_size=3, strides=stride, padding=1, use_bias=False)

"""ResNet-50 v1.5 (He et al., 2015): the stride of a down-sampling block is in its 3x3 convolution."""

from __future__ import annotations

import torch
from torch import nn

CLASSES = 1000
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block
_EXPANSION = 4


def resnet50() -> nn.Sequential:
    """Return the network with random weights: 25.6 million parameters, images of any size to 1,000 classes."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, kernel_size=7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
    ]
    channels = 64
    for width, blocks, stride in _STAGES:
        for index in range(blocks):
            layers.append(Bottleneck(channels, width, stride if index == 0 else 1))
            channels = width * _EXPANSION
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    network = nn.Sequential(*layers)
    network.apply(_initialize)
    return network


class Bottleneck(nn.Module):
    """Three convolutions, and a way past them."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * _EXPANSION
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, width, kernel_size=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, kernel_size=3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, kernel_size=1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, outputs, kernel_size=1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return what the block makes of its input."""
        return nn.functional.relu(self.convolutions(images) + self.shortcut(images))


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Conv2d):
        nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    elif isinstance(module, Bottleneck):
        # A block adds nothing to its input at first (Goyal et al., 2017).
        nn.init.zeros_(module.convolutions[-1].weight)
    elif isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.01)
        nn.init.zeros_(module.bias)

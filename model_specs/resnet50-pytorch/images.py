"""Where a rank's images come from: a folder for each class, as torchvision's ImageFolder has it, or random numbers."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from resnet import CLASSES
from settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Batch = tuple[torch.Tensor, torch.Tensor]

_SUFFIXES = (".jpeg", ".jpg", ".png", ".webp")
# ImageNet's, of each colour.
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def find_images(folder: Path | None) -> list[tuple[Path, int]]:
    """Return the files of `folder/train/CLASS/`, or of `folder/CLASS/`, each with the number of its class.

    Raises:
        SettingsError: There are more classes than the network has.
    """
    if folder is None or not folder.is_dir():
        return []
    top = folder / "train" if (folder / "train").is_dir() else folder
    classes = sorted(entry for entry in top.iterdir() if entry.is_dir())
    if len(classes) > CLASSES:
        raise SettingsError(f"DATASET_DIR: expected at most {CLASSES:,} folders in {top}, found {len(classes):,}")
    return [
        (path, number)
        for number, entry in enumerate(classes)
        for path in sorted(entry.iterdir())
        if path.suffix.lower() in _SUFFIXES
    ]


def require_enough(files: list[tuple[Path, int]], count: int) -> None:
    """See that there are no files, or as many as a step of all ranks takes.

    Raises:
        SettingsError: There are fewer.
    """
    if 0 < len(files) < count:
        raise SettingsError(f"DATASET_DIR: expected {count:,} images for a step of all ranks, found {len(files):,}")


class Images(Dataset):
    """Random crops of images, half of them mirrored."""

    def __init__(self, files: list[tuple[Path, int]], size: int) -> None:
        self._files = files
        self._size = size

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, number = self._files[index]
        with Image.open(path) as image:
            box = _random_box(*image.size)
            crop = image.convert("RGB").resize((self._size, self._size), Image.Resampling.BILINEAR, box=box)
        pixels = (np.asarray(crop, np.float32) / 255 - _MEAN) / _DEVIATION
        if random.random() < 0.5:  # noqa: S311 - no secret
            pixels = pixels[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))), number


def _random_box(width: int, height: int) -> tuple[int, int, int, int]:
    """Return 8 to 100 % of an image's area, of 3:4 to 4:3 (Szegedy et al., 2014); all of it when nothing fits."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)  # noqa: S311
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))  # noqa: S311
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            left, top = random.randint(0, width - across), random.randint(0, height - down)  # noqa: S311
            return left, top, left + across, top + down
    return 0, 0, width, height


def batches_of(  # noqa: PLR0913, PLR0917 - what a loader needs
    files: list[tuple[Path, int]], batch_size: int, image_size: int, rank: int, ranks: int, seed: int
) -> Iterator[Batch]:
    """Yield batches of this rank's share of the files, in another order each time through, without end.

    There have to be as many files as a step of all ranks takes.
    """
    random.seed(seed * ranks + rank)
    sampler: DistributedSampler = DistributedSampler(Images(files, image_size), ranks, rank, seed=seed, drop_last=True)
    loader = DataLoader(sampler.dataset, batch_size, sampler=sampler, drop_last=True)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def synthetic_batches(batch_size: int, image_size: int, seed: int, rank: int) -> Iterator[Batch]:
    """Yield the same batch of random numbers without end, another one on each rank."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + rank)
    images = torch.randn(batch_size, 3, image_size, image_size, generator=generator)
    labels = torch.randint(CLASSES, (batch_size,), generator=generator)
    while True:
        yield images, labels

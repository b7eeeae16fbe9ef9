"""Which TFRecord files there are, and which part of them a rank reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Source:
    """Where images come from: TFRecord files, or none of them for synthetic data."""

    files: tuple[str, ...]
    remark: str

    @property
    def kind(self) -> str:
        """Return the name that the result line has for it."""
        return "tfrecord" if self.files else "synthetic"

    def __str__(self) -> str:
        """Say what the data is, and so that nobody takes numbers from synthetic data for real ones."""
        return f"data: {self.remark}" if self.files else f"*** SYNTHETIC DATA: {self.remark} ***"


@dataclass(frozen=True)
class Share:
    """One rank's part: its files, and of their records each `stride`-th from the `offset`-th on."""

    files: tuple[str, ...]
    stride: int = 1
    offset: int = 0


def find_shards(dataset_dir: Path | None, split: str) -> Source:
    """Find `train-00000-of-01024` and the like, in the folder itself or in its folder `train`.

    Both are in use: older scripts write all of ImageNet into one flat folder, newer ones a folder for each
    split. Without any such file the data is synthetic, whatever else lies there: a package has to run before
    anybody has mounted anything, and the remark says why.

    Raises:
        SettingsError: the folder is there but cannot be read. Somebody's data is in it, and synthetic data is
            not what they want.
    """
    if dataset_dir is None:
        return Source((), "DATASET_DIR is not set")
    flat = _names_in(dataset_dir)
    if flat is None:
        return Source((), f"DATASET_DIR={dataset_dir} does not exist")
    shard = re.compile(rf"{split}-\d+-of-\d+")
    paths = [dataset_dir / name for name in flat]
    paths += [dataset_dir / split / name for name in _names_in(dataset_dir / split) or ()]
    files = tuple(str(path) for path in paths if shard.fullmatch(path.name))
    if files:
        return Source(files, f"{len(files)} files {split}-* in DATASET_DIR={dataset_dir}")
    if flat:
        return Source((), f"DATASET_DIR={dataset_dir} has no file with a name like {split}-00000-of-01024")
    return Source((), f"DATASET_DIR={dataset_dir} is empty")


def _names_in(folder: Path) -> list[str] | None:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"DATASET_DIR: expected a readable folder, found {folder}: {error.strerror}") from error


def share_of(files: Sequence[str], rank: int, size: int) -> Share:
    """Deal the files out to the ranks; where there are fewer files than ranks, deal out their records."""
    if len(files) >= size:
        return Share(tuple(files[rank::size]))
    return Share(tuple(files), stride=size, offset=rank)

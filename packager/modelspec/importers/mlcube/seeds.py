"""Inputs in a cube's folder that the package contains, for a claim that does not have them yet."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from packager.base import plainfiles
from packager.base.errors import reason
from packager.base.fields import ASSET_PATH
from packager.base.problems import show
from packager.kubernetes.configmap import CODE_BYTES, encoded_size, unreadable_reason
from packager.modelspec.importers.mlcube.paths import WORKSPACE_FOLDER
from packager.modelspec.importers.source import printable

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "seeds"
"""The folder of the model for the inputs."""

_MOST_FILES = 200
_LONGEST_PATH = 200


class SeedError(ValueError):
    """An input that the package cannot contain."""


def files(root: Path, path: str, room: int) -> dict[str, bytes]:
    """Return the files of an input by their paths in the model, those of a folder sorted; none for an empty folder.

    Args:
        root: The cube's folder. No link below it is followed.
        path: The file or the folder, below the cube's folder.
        room: The free bytes of the ConfigMap.

    Raises:
        SeedError: The files do not fit, are not plain files, or have names that a model cannot have.
    """
    if path == WORKSPACE_FOLDER:
        raise SeedError("it is the whole workspace")
    contents: dict[str, bytes] = {}
    for name in _names(root, path):
        target = f"{FOLDER}/{name}"
        if len(target) > _LONGEST_PATH:
            raise SeedError(f"{show(printable(name))} is longer than {_LONGEST_PATH - len(FOLDER) - 1} characters")
        if not re.match(ASSET_PATH, target):
            raise SeedError(
                f"{show(printable(name))} has other characters than letters, digits and - . _ + @ between the slashes"
            )
        try:
            with plainfiles.open_below(root, name) as stream:
                content = stream.read(CODE_BYTES + 1)
        except OSError as error:
            raise SeedError(f"{show(printable(name))} cannot be read: {reason(error)}") from None
        if unreadable := unreadable_reason(content):
            raise SeedError(f"{show(printable(name))} {unreadable}, which kubectl refuses or changes in a ConfigMap")
        contents[target] = content
        room -= encoded_size(content)
        if room < 0 or len(contents) > _MOST_FILES:
            raise SeedError(f"inputs in a package take at most {CODE_BYTES >> 10} KiB in {_MOST_FILES} files")
    return contents


def _names(root: Path, path: str) -> list[str]:
    """Return the paths of the files at or below a path, relative to `root`; the walk stops at too many files."""
    top = root / path
    if not top.is_dir():
        return [path]
    names: list[str] = []
    for folder, folders, below in os.walk(top):
        folders.sort()
        names += (os.path.relpath(os.path.join(folder, name), root) for name in sorted(below))  # noqa: PTH118
        names += (
            os.path.relpath(os.path.join(folder, name), root)  # noqa: PTH118
            for name in folders
            if os.path.islink(os.path.join(folder, name))  # noqa: PTH114, PTH118
        )
        if len(names) > _MOST_FILES:
            break
    return names

"""Paths of parameters on the claim that holds the workspace.

mlcommons/mlcube, runners/mlcube_docker and mlcube/shell.py: relative paths are below the workspace; `~` and `$NAME`
refer to the user's machine.

Tests: modelspec/importers/mlcube/test_read.py.
"""

from __future__ import annotations

import posixpath
import re

from packager.base.values import Value

WORKSPACE = "\x01"
"""The symbol for the workspace in a text with replaced references."""

WORKSPACE_FOLDER = "workspace"
"""The path of the workspace below the folder of mlcube.yaml."""

ROOT = "\x02"
"""The symbol for the folder of mlcube.yaml in a text with replaced references."""

OUTSIDE = ".outside"
"""The folder on the claim for paths that are outside of the workspace in the cube."""

_HIGHEST = 2
"""The most folders above the root that a path may lead to."""


class PathError(ValueError):
    """A path that has no place on the claim."""


def written(text: str) -> str:
    """Return a text with the symbols of the workspace and the root replaced by the names that a cube uses."""
    return text.replace(WORKSPACE, "${workspace}").replace(ROOT, "${runtime.root}")


class Place(Value, frozen=True):
    """The place of a path.

    Attributes:
        path: The path on the claim, relative to its root.
        below_root: The path from the folder of mlcube.yaml, which may begin with `..`; None for an absolute path.
        is_outside: Whether the path is outside of the workspace in the cube.
        is_folder: Whether the path ends as that of a folder does.
    """

    path: str
    below_root: str | None
    is_outside: bool
    is_folder: bool


def place(text: str) -> Place:
    """Return the place of the path `text`.

    Raises:
        PathError: The path leads too far up, or is not valid.
    """
    is_folder = text.endswith(("/", "\\"))
    plain = text.rstrip("/\\") or text[:1]
    if plain[:1] in (WORKSPACE, ROOT):
        symbol, rest = plain[0], plain[1:]
        if rest and not rest.startswith("/"):
            raise PathError(f"expected a / after {written(symbol)}")
        is_folder = is_folder or not rest
        plain = f"{'.' if symbol == WORKSPACE else '..'}/{rest.lstrip('/')}"
    if WORKSPACE in plain or ROOT in plain:
        raise PathError("the workspace's own path is in the middle of it")
    if not plain.strip() or "\x00" in plain:
        raise PathError("expected a path")
    if plain.startswith(("/", "~", "$", "\\")) or re.match("[A-Za-z]:", plain):
        rest = posixpath.normpath("/" + re.sub(r"[$~{}:]", "", plain.replace("\\", "/"))).strip("/")
        return Place(f"{OUTSIDE}/{rest}" if rest else OUTSIDE, None, is_outside=True, is_folder=is_folder)
    inside = posixpath.normpath(plain)
    if inside != ".." and not inside.startswith("../"):
        path = "" if inside == "." else inside
        below = posixpath.normpath(f"{WORKSPACE_FOLDER}/{path}")
        return Place(path, below, is_outside=False, is_folder=is_folder or not path)
    steps = inside.split("/")
    ups = steps.count("..")
    if ups > _HIGHEST + 1:
        raise PathError(f"leads more than {_HIGHEST} folders above that of mlcube.yaml")
    rest = "/".join(steps[ups:])
    below_root = "/".join([*[".."] * (ups - 1), *steps[ups:]]) or "."
    if ups == 1 and steps[1:2] == [WORKSPACE_FOLDER]:
        path = "/".join(steps[2:])
        return Place(path, below_root, is_outside=False, is_folder=is_folder or not path)
    return Place(f"{OUTSIDE}/{rest}" if rest else OUTSIDE, below_root, is_outside=True, is_folder=is_folder)

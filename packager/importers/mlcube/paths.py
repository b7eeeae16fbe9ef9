"""Where a parameter's path is on the claim that holds the workspace.

mlcommons/mlcube, runners/mlcube_docker and mlcube/shell.py: relative paths are below the workspace, `~` and `$NAME` are
the user's own.
"""

from __future__ import annotations

import posixpath
import re

from packager.base.values import Value

WORKSPACE = "\x01"
"""Stands for the workspace in a text whose references have been replaced."""

WORKSPACE_FOLDER = "workspace"
"""Where the workspace is, below the folder of mlcube.yaml."""

ROOT = "\x02"
"""Stands for the folder of mlcube.yaml."""

OUTSIDE = ".outside"
"""The folder on the claim for what is outside of the workspace in the cube."""

_HIGHEST = 2
"""How many folders above the root a path may lead."""


class PathError(ValueError):
    """A path that no place can be found for."""


def written(text: str) -> str:
    """Return a text whose references have been replaced with the workspace and the root as a cube names them."""
    return text.replace(WORKSPACE, "${workspace}").replace(ROOT, "${runtime.root}")


class Place(Value, frozen=True):
    """Where a path is.

    Attributes:
        path: On the claim, relative to its root.
        below_root: The path from the folder of mlcube.yaml, with `..` for what is above; None for an absolute one.
        is_outside: Whether it is outside of the workspace in the cube.
        is_folder: Whether it ends like a folder.
    """

    path: str
    below_root: str | None
    is_outside: bool
    is_folder: bool


def place(text: str) -> Place:
    """Return where the path `text` is.

    Raises:
        PathError: It leads too far up, or is none.
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

"""The references and paths of an MLCube: `${a.b}` is replaced, and each path has its place on a claim.

mlcommons/mlcube, runners/mlcube_docker and mlcube/shell.py: relative paths are below the workspace; `~` and `$NAME`
refer to the user's machine. Variables of the environment are never read.

Tests: modelspec/importers/test_mlcube.py.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKSPACE_FOLDER = "workspace"
"""The path of the workspace below the folder of mlcube.yaml."""

OUTSIDE = ".outside"
"""The folder on the claim for paths that are outside of the workspace in the cube."""

WORKSPACES = ("workspace", "runtime.workspace")
"""The names by which a cube refers to the workspace."""

PATHS = {**dict.fromkeys(WORKSPACES, "./"), "runtime.root": "../"}
"""The replacements of the runner's own names in a path, which is relative to the workspace."""

_REFERENCE = re.compile(r"\$\{([^{}$]*)\}")
_DEEPEST = 8
_LONGEST = 4096
_HIGHEST = 2  # the most folders above the root that a path may lead to


class CubeError(ValueError):
    """A reference that cannot be replaced, or a path that has no place on the claim."""


class Place(Value, frozen=True):
    """The place of a path."""

    path: str  # on the claim, relative to its root
    below_root: str | None  # from the folder of mlcube.yaml, may begin with `..`; None for an absolute path
    is_outside: bool  # of the workspace in the cube
    is_folder: bool  # the path ends as that of a folder does


def references(text: str) -> list[str]:
    """Return the names in each `${a.b}` of a text."""
    return [name.strip() for name in _REFERENCE.findall(text)]


def resolved(text: str, data: Any, names: Mapping[str, str]) -> str:
    """Return `text` with each `${a.b}` replaced by the value at `a.b` in `data`, or by that of `names`.

    Raises:
        CubeError: A reference names no scalar, is in a circle, or the text would be too long.
    """
    for _ in range(_DEEPEST):
        if not _REFERENCE.search(text):
            return text
        if len(text) > _LONGEST:
            break
        text = _REFERENCE.sub(lambda match: _value(match[1].strip(), data, names)[:_LONGEST], text)
    raise CubeError(f"its references are more than {_DEEPEST} deep, in a circle, or of more than {_LONGEST} characters")


def _value(name: str, data: Any, names: Mapping[str, str]) -> str:
    if name in names:
        return names[name]
    node = data
    for step in name.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    if not isinstance(node, str | int | float):
        folder = ": it is a folder, which has no place here" if name in PATHS else ""
        raise CubeError(f"${{{name}}} is not a value of the file{folder}")
    return str(node).lower() if isinstance(node, bool) else str(node)


def place(text: str) -> Place:
    """Return the place of a path. Raises CubeError if the path leads too far up, or is not valid."""
    is_folder = text.endswith(("/", "\\"))
    plain = text.rstrip("/\\") or text[:1]
    if not plain.strip() or "\x00" in plain:
        raise CubeError("expected a path")
    if plain.startswith(("/", "~", "$", "\\")) or re.match("[A-Za-z]:", plain):
        rest = posixpath.normpath("/" + re.sub(r"[$~{}:]", "", plain.replace("\\", "/"))).strip("/")
        return Place(f"{OUTSIDE}/{rest}".rstrip("/"), None, is_outside=True, is_folder=is_folder)
    below_root = posixpath.normpath(f"{WORKSPACE_FOLDER}/{plain}")
    if below_root.count("../") + (below_root.split("/")[-1] == "..") > _HIGHEST:
        raise CubeError(f"leads more than {_HIGHEST} folders above that of mlcube.yaml")
    inside = posixpath.relpath(f"/a/a/{below_root}", f"/a/a/{WORKSPACE_FOLDER}")
    if inside != ".." and not inside.startswith("../"):
        path = "" if inside == "." else inside
        return Place(path, below_root, is_outside=False, is_folder=is_folder or not path)
    rest = re.sub(r"^(\.\.?(/|$))+", "", below_root)
    return Place(f"{OUTSIDE}/{rest}".rstrip("/"), below_root, is_outside=True, is_folder=is_folder)

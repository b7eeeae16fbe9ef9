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

WORKSPACE = "\x01"
"""The symbol for the workspace in a text with replaced references."""

WORKSPACE_FOLDER = "workspace"
"""The path of the workspace below the folder of mlcube.yaml."""

ROOT = "\x02"
"""The symbol for the folder of mlcube.yaml in a text with replaced references."""

OUTSIDE = ".outside"
"""The folder on the claim for paths that are outside of the workspace in the cube."""

WORKSPACES = ("workspace", "runtime.workspace")
"""The names by which a cube refers to the workspace."""

PATH_SYMBOLS = {**dict.fromkeys(WORKSPACES, WORKSPACE), "runtime.root": ROOT}
"""The symbols that replace the runner's own names in a path."""

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
    _refuse_symbols(text)
    for _ in range(_DEEPEST):
        if not _REFERENCE.search(text):
            return text
        if len(text) > _LONGEST:
            raise CubeError(f"expected at most {_LONGEST} characters in a text with references")
        text = _REFERENCE.sub(lambda match: _value(match[1].strip(), data, names), text)
        if len(text) > _LONGEST:
            raise CubeError(f"its references expand to more than {_LONGEST} characters")
    raise CubeError(f"its references are more than {_DEEPEST} deep, or in a circle")


def _value(name: str, data: Any, names: Mapping[str, str]) -> str:
    if name in names:
        return names[name]
    if name in PATH_SYMBOLS:
        raise CubeError(f"${{{name}}} is a folder, which has no place here")
    node = data
    for step in name.split("."):
        node = node.get(step) if isinstance(node, dict) else None
    if isinstance(node, bool):
        return "true" if node else "false"
    if not isinstance(node, str | int | float):
        raise CubeError(f"${{{name}}} is not a value of the file")
    if len(str(node)) > _LONGEST:
        raise CubeError(f"${{{name}}} has more than {_LONGEST} characters")
    return _refuse_symbols(str(node))


def _refuse_symbols(text: str) -> str:
    if WORKSPACE in text or ROOT in text:
        raise CubeError("expected text without control characters")
    return text


def written(text: str) -> str:
    """Return a text with the symbols of the workspace and the root replaced by the names that a cube uses."""
    return text.replace(WORKSPACE, "${workspace}").replace(ROOT, "${runtime.root}")


def place(text: str) -> Place:
    """Return the place of a path. Raises CubeError if the path leads too far up, or is not valid."""
    is_folder = text.endswith(("/", "\\"))
    plain = text.rstrip("/\\") or text[:1]
    if plain[:1] in (WORKSPACE, ROOT):
        symbol, rest = plain[0], plain[1:]
        if rest and not rest.startswith("/"):
            raise CubeError(f"expected a / after {written(symbol)}")
        is_folder = is_folder or not rest
        plain = f"{'.' if symbol == WORKSPACE else '..'}/{rest.lstrip('/')}"
    if WORKSPACE in plain or ROOT in plain:
        raise CubeError("the workspace's own path is in the middle of it")
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

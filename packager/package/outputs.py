"""Finds the folders that a package's pods write to, as far as they are inside the package's own folder."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from packager.base import envfile
from packager.base.problems import Problem
from packager.kubernetes.mountpath import normalized
from packager.package import layout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from packager.package.opened import Package

_WRITABLE = ("OUTPUT_DIR", "CHECKPOINT_DIR")

ENV_BYTES = 1 << 20
"""The bytes of a ConfigMap that Kubernetes accepts; an env file becomes one."""


def check(package: Package, edited: Collection[str]) -> Iterator[Problem]:
    """Yield a finding for each folder that an edit moves into the package, where pods would write among its files.

    Raises:
        ToolError: A file cannot be read.
    """
    for path in (layout.env(name) for name in package.overlays):
        if path not in edited:
            continue
        sealed = {folder for _, folder in inside(package, path, sealed=True)}
        for line, folder in inside(package, path, sealed=False):
            if not any(folder == sealed_folder or folder.startswith(f"{sealed_folder}/") for sealed_folder in sealed):
                message = f"an edit moves {line.key} into the package's own folder: {line.value!r}"
                hint = f"use a folder outside of it, or {', '.join(sorted(sealed))} in it" if sealed else None
                yield Problem(package.shown(path), line.number, 1, message, hint)


def inside(package: Package, path: str, *, sealed: bool) -> Iterator[tuple[envfile.Line, str]]:
    """Yield each line of an mlops.env that names a folder to write to in the package, and that folder.

    Args:
        package: The package.
        path: The path of the env file below its root.
        sealed: Whether to read the file as it was sealed; else as it is.
    """
    if path not in package.inventory["files"]:
        return
    text = (package.sealed(path) or b"") if sealed else package.reader.read(path, ENV_BYTES)
    lines = list(envfile.lines(text))
    root = next((normalized(line.value) for line in lines if line.key == "MODEL_DIR" and line.value), None)
    for line in lines if root else ():
        if line.key in _WRITABLE and line.value:
            folder = posixpath.relpath(normalized(line.value), root)
            if folder.partition("/")[0] != "..":
                yield line, folder

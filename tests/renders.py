"""Caches the output of the tests' kubectls, so that they render the same files only once.

kubectl's rendering depends only on files. So a result is stored under a digest of the files that the overlay may be
rendered from, the kubectls and the rendered folder, in the user's cache, beside the kubectls. To render everything
again, delete the folder.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from packager.base.process import Finished
from packager.package.layout import KUSTOMIZATIONS, OVERLAYS
from tests import kubectls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CACHE = kubectls.CACHE.parent / "renders"
_UNUSED_DAYS = 30

_MANIFESTS = (".yaml", ".yml", ".json")


def digest(kustomization: Path, inputs: Sequence[Path], versions: Sequence[str]) -> str:
    """Return a digest of everything that determines the output for a kustomization.

    Args:
        kustomization: The folder of the kustomization.
        inputs: The folders with every file that may be read for it; all have the same parent.
        versions: The versions of the kubectls.
    """
    files = []
    for folder in {kustomization, *inputs}:
        assert folder.parent == kustomization.parent
        for path in folder.rglob("*"):
            assert not path.is_symlink()
            if not path.is_dir():
                files.append(path)
    return _hashed([kustomization.name.encode(), *map(_kubectl, versions)], kustomization.parent, files)


def _kubectl(version: str) -> bytes:
    return f"kubectl {version} {kubectls.WHEELS[version].sha256}".encode()


def _hashed(parts: list[bytes], root: Path, files: Iterable[Path]) -> str:
    """Return a digest of parts, and of the paths below `root` and the contents of files."""
    for path in sorted(files):
        parts += [path.relative_to(root).as_posix().encode(), path.read_bytes()]
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d:" % len(part) + part)
    return whole.hexdigest()


def kept(name: str) -> str | None:
    """Return the cached output for a digest; None if there is none."""
    path = CACHE / name
    try:
        os.utime(path)
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None


def keep(name: str, rendered: str) -> None:
    """Store rendered output under a digest."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=CACHE, prefix=".unfinished-", delete=False) as file:
        file.write(rendered.encode())
    Path(file.name).rename(CACHE / name)


def prune() -> None:
    """Delete outputs that were not used for a month."""
    for path in CACHE.iterdir() if CACHE.is_dir() else ():
        if re.fullmatch(r"[0-9a-f]{64}", path.name) and path.stat().st_mtime < time.time() - _UNUSED_DAYS * 86400:
            path.unlink(missing_ok=True)


def remembering(run: Callable[..., Finished]) -> Callable[..., Finished]:
    """Return `Runner.run`, which starts one of the tests' kubectls only if it has not yet rendered the same package.

    Output is not cached if kubectl warns or fails, for folders that are not overlays of a package, and for overlays
    that refer to files outside of the package.
    """

    @functools.wraps(run)
    def remembered(_self: object, argv: Sequence[str], **options: Any) -> Finished:
        name = _render(argv)
        rendered = None if name is None else kept(name)
        if rendered is not None:
            return Finished(0, rendered, "")
        done = run(argv, **options)
        if name is not None and done.returncode == 0 and done.stdout.strip() and not done.stderr:
            keep(name, done.stdout)
        return done

    return remembered


def _render(argv: Sequence[str]) -> str | None:
    """Return a digest for `kubectl kustomize FOLDER`; None for another command or if it may read other files."""
    match argv:
        case [program, "kustomize", folder]:
            overlay = Path(folder).absolute()
        case _:
            return None
    version = _version(program)
    top, *steps = OVERLAYS.split("/")
    root = overlay.parents[len(steps)]
    if version is None or overlay.parent != root.joinpath(*steps) or root.name != top or not overlay.is_dir():
        return None
    below = paths_below(root)
    files = None if below is None else reached(root, overlay, below)
    return None if files is None else _hashed([overlay.name.encode(), _kubectl(version)], root, files)


def reached(root: Path, overlay: Path, below: set[str]) -> set[Path] | None:
    """Return the files that an overlay may be rendered from, among the paths `below` the root.

    None if the overlay may need other files. Each text in a reached kustomization or manifest counts as a reference if
    such a file or folder exists. A manifest names files of the kustomization that includes it, and no folders.
    """
    files: set[Path] = set()
    folders = {overlay}
    waiting = [overlay]
    while waiting:
        folder = waiting.pop()
        kustomizations = {folder / name for name in KUSTOMIZATIONS if (folder / name).is_file()}
        unread = set(kustomizations or filter(Path.is_file, folder.rglob("*")))
        while unread:
            path = unread.pop()
            files.add(path)
            if path not in kustomizations and path.suffix not in _MANIFESTS:
                continue
            references = _references(path, folder, below)
            if references is None:
                return None
            for reference in references:
                if reference.is_file() and reference.is_relative_to(root):
                    unread |= {reference} - files
                elif path in kustomizations:
                    if not reference.is_relative_to(root):
                        return None
                    if reference.is_dir() and reference not in folders:
                        waiting.append(reference)
                        folders.add(reference)
    return files


def paths_below(root: Path) -> set[str] | None:
    """Return the paths of `root` and of all files and folders below it; None if one is a symlink."""
    paths = {str(root)}
    waiting = [str(root)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    return None
                paths.add(entry.path)
                if entry.is_dir():
                    waiting.append(entry.path)
    return paths


def _references(path: Path, folder: Path, below: set[str]) -> set[Path] | None:
    """Return the paths in a YAML file that exist, contain `..` or are absolute and exist; None if it is not YAML."""
    names = _names(path.read_bytes())
    if names is None:
        return None
    inside = {f"{folder}/{name}" for name in names} & below
    others = {name: os.path.normpath(folder / name) for name in names if _is_unusual(name)}
    return {Path(path) for path in inside} | {
        Path(path) for name, path in others.items() if ".." in name or os.path.lexists(path)
    }


def _is_unusual(name: str) -> bool:
    """Whether a path is absolute, or may be written in a shorter way."""
    return name[0] == "/" or name[-1] in "/." or "./" in name or "//" in name


@functools.lru_cache(1_000)
def _names(text: bytes) -> frozenset[str] | None:
    """Return the texts in a YAML file that may be paths; None if it is not YAML."""
    names = set()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.ScalarEvent):
                parts = event.value.split("=")  # `key=path` in a generator
                names |= {"=".join(parts[start:]) for start in range(len(parts))}
    except yaml.YAMLError:
        return None
    return frozenset(names - {""})


@functools.cache
def _version(program: str) -> str | None:
    """Return the version of a program that is one of the tests' kubectls; None for another program."""
    folder = Path(shutil.which(program) or program).resolve().parent
    version = folder.name.partition("-")[0]
    return version if folder.parent == kubectls.CACHE.resolve() and version in kubectls.WHEELS else None

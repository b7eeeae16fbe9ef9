"""Caches the output of the tests' kubectls, so that they render the same files only once.

kubectl's rendering depends only on files. So a result is stored under a digest of these files, the kubectls and the
rendered folder, in the user's cache, beside the kubectls. To render everything again, delete the folder.
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

from packager.base.process import Finished
from packager.package.layout import KUSTOMIZATIONS, OVERLAYS
from tests import kubectls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

CACHE = kubectls.CACHE.parent / "renders"
_UNUSED_DAYS = 30

_INSIDE = re.compile(rb"\.\./\.\./\.\./(common|scripts|site)/")
"""The paths outside of its own folder that an overlay of ours names."""

_OUTSIDE = re.compile(rb"\.\.|[-:] ?[\"']?/")


def digest(kustomization: Path, inputs: Sequence[Path], versions: Sequence[str]) -> str:
    """Return a digest of everything that determines the output for a kustomization.

    Args:
        kustomization: The folder of the kustomization.
        inputs: The folders with every file that may be read for it; all have the same parent.
        versions: The versions of the kubectls.
    """
    folders = {kustomization, *inputs}
    assert {folder.parent for folder in folders} == {kustomization.parent}
    files = _files(folders)
    assert files is not None
    return _hashed([kustomization.name.encode(), *map(_kubectl, versions)], kustomization.parent, files)


def _files(folders: Iterable[Path]) -> list[Path] | None:
    """Return all files in folders; None if there is a link."""
    paths = [path for folder in folders for path in folder.rglob("*")]
    return None if any(path.is_symlink() for path in paths) else [path for path in paths if not path.is_dir()]


def _kubectl(version: str) -> bytes:
    return f"kubectl {version} {kubectls.WHEELS[version].sha256}".encode()


def _hashed(parts: list[bytes], root: Path, files: Iterable[Path]) -> str:
    """Return a digest of parts, and of the paths below `root` and the contents of files."""
    for path in sorted(files):
        parts += [path.relative_to(root).as_posix().encode(), path.read_bytes()]
    return hashlib.sha256(b"".join(b"%d:" % len(part) + part for part in parts)).hexdigest()


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
    """Return `Runner.run`, which starts one of the tests' kubectls only if it has not yet rendered the same overlay.

    Output is not cached if kubectl warns or fails, nor for a folder that is not an overlay of a package or names others
    than those that all overlays share.
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
    if len(argv) != 3 or argv[1] != "kustomize":
        return None
    version, overlay = _version(argv[0]), Path(argv[2]).absolute()
    top, *steps = OVERLAYS.split("/")
    root = overlay.parents[len(steps)]
    if version is None or overlay.parent != root.joinpath(*steps) or root.name != top or not overlay.is_dir():
        return None
    files = _files((overlay, *(root / name for name in ("common", "scripts", "site"))))
    own = [path for path in files or () if path.name in KUSTOMIZATIONS and path.is_relative_to(overlay)]
    if files is None or any(_OUTSIDE.search(_INSIDE.sub(b"", path.read_bytes())) for path in own):
        return None
    return _hashed([overlay.name.encode(), _kubectl(version)], root, files)


@functools.cache
def _version(program: str) -> str | None:
    """Return the version of a program that is one of the tests' kubectls; None for another program."""
    folder = Path(shutil.which(program) or program).resolve().parent
    version = folder.name.partition("-")[0]
    return version if folder.parent == kubectls.CACHE.resolve() and version in kubectls.WHEELS else None

"""Caches the output of the tests' kubectls, so that they render the same files only once.

kubectl's rendering depends only on files. So a result is stored under a digest of the files, the kubectls and the
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
from packager.package.layout import OVERLAYS
from tests import kubectls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CACHE = kubectls.CACHE.parent / "renders"
_UNUSED_DAYS = 30

_UPWARDS = re.compile(rb"[^\s\"'\[\],]*\.\.[^\s\"'\[\],]*")


def digest(kustomization: Path, inputs: Sequence[Path], versions: Sequence[str], overlay: str = "") -> str:
    """Return a digest of everything that determines the output for a kustomization.

    Args:
        kustomization: The folder of the kustomization.
        inputs: The folders with every file that may be read for it; all have the same parent.
        versions: The versions of the kubectls.
        overlay: The rendered overlay, if `kustomization` is a package's `quickstart`.
    """
    parts = [kustomization.name.encode(), overlay.encode()]
    parts += [f"kubectl {version} {kubectls.WHEELS[version].sha256}".encode() for version in versions]
    for folder in sorted({kustomization, *inputs}):
        assert folder.parent == kustomization.parent
        for path in sorted(folder.rglob("*")):
            assert not path.is_symlink()
            if not path.is_dir():
                parts += [path.relative_to(folder.parent).as_posix().encode(), path.read_bytes()]
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

    Output is not cached if kubectl fails or warns, for folders that are not overlays of a package, and for overlays
    that refer to files outside of the package.
    """

    @functools.wraps(run)
    def remembered(self: object, argv: Sequence[str], **options: Any) -> Finished:
        name = _package_digest(argv)
        rendered = kept(name) if name else None
        if rendered is not None:
            return Finished(0, rendered, "")
        done = run(self, argv, **options)
        if name and done.returncode == 0 and done.stdout.strip() and not done.stderr:
            keep(name, done.stdout)
        return done

    return remembered


def _package_digest(argv: Sequence[str]) -> str | None:
    """Return the digest for `kubectl kustomize FOLDER`; None for another command or if it may read other files."""
    match argv:
        case [program, "kustomize", folder]:
            overlay = Path(folder).absolute()
        case _:
            return None
    version = _version(program)
    top, *below = OVERLAYS.split("/")
    root = overlay.parents[len(below)]
    if version is None or overlay.parent != root.joinpath(*below) or root.name != top or not overlay.is_dir():
        return None
    for path in root.rglob("*"):
        if path.is_symlink():
            return None
        if path.suffix in (".yaml", ".yml") or path.name == "Kustomization":
            depth = len(path.relative_to(root).parts) - 1
            if any(reference.count(b"..") > depth for reference in _UPWARDS.findall(path.read_bytes())):
                return None
    return digest(root, [], [version], overlay.name)


@functools.cache
def _version(program: str) -> str | None:
    """Return the version of a program that is one of the tests' kubectls; None for another program."""
    folder = Path(shutil.which(program) or program).resolve().parent
    version = folder.name.partition("-")[0]
    return version if folder.parent == kubectls.CACHE.resolve() and version in kubectls.WHEELS else None

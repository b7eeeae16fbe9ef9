"""A package that somebody has: opened where it lies, or out of its archive, for as long as it is looked at."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packager import archive, manifest, paths
from packager.contents import DEFAULT
from packager.errors import ToolError, UsageError, VerificationError, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from packager.contents import Limits

OVERLAYS = "quickstart/k8s/mlops"
"""The folder, below the package's root, that holds one folder for each overlay."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package on disk.

    Attributes:
        name: As its manifest says, whatever its folder is called.
        folder: Where its files are: the folder that the user named, or what was unpacked of the archive.
        source: The folder or the archive, as the user named it.
        overlays: The names of its overlays: multi-node first when there is one, then by name.
        digest: `sha256:…` of the manifest.
        manifest: What the manifest says.
    """

    name: str
    folder: Path
    source: Path
    overlays: tuple[str, ...]
    digest: str
    manifest: Mapping[str, Any]

    def overlay(self, name: str) -> Path:
        """Return the folder of the overlay `name`."""
        return self.folder / OVERLAYS / name

    def shown(self, path: str) -> str:
        """Return how messages name the file `path` of the package: below what the user named."""
        return str(self.source / path) if self.source.is_dir() else f"{self.source}:{path}"


@contextmanager
def opened(path: Path, *, limits: Limits = DEFAULT) -> Iterator[Package]:
    """Open the package at `path`; what an archive was unpacked to is gone when the block ends.

    Nothing in it has been verified beyond what opening takes: `packager.verify` judges the rest.

    Args:
        path: A folder, or a tar.gz.
        limits: What an archive may unpack to.

    Raises:
        UsageError: There is nothing at `path`, or neither a file nor a folder.
        VerificationError: It is no package, or an archive that must not be unpacked.
        ToolError: It cannot be read, or there is no room to unpack it.
    """
    if not paths.exists(path):
        raise UsageError(f"there is no {path}")
    with nullcontext(path) if paths.is_folder(path) else _unpacked(path, limits) as folder:
        said = manifest.read(folder)
        yield Package(
            name=said["package"],
            folder=folder,
            source=path,
            overlays=_overlays(folder / OVERLAYS),
            digest=f"sha256:{hashlib.sha256((folder / manifest.MANIFEST).read_bytes()).hexdigest()}",
            manifest=said,
        )


def _unpacked(path: Path, limits: Limits) -> AbstractContextManager[Path]:
    if not paths.is_file(path):
        raise UsageError(f"{path} is neither a file nor a folder")
    return _extracted(path, limits)


@contextmanager
def _extracted(path: Path, limits: Limits) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mlpack-") as work:
        try:
            archive.extract(path, Path(work), limits)
        except OSError as error:
            raise ToolError(f"{path} cannot be unpacked: {reason(error)}") from None
        yield _root(path, Path(work))


def _root(path: Path, work: Path) -> Path:
    """Return the package's folder among what was unpacked: the only one at the top, or the top itself."""
    if (work / manifest.MANIFEST).exists():
        return work
    found = sorted(work.iterdir())
    if len(found) == 1 and found[0].is_dir():
        if (found[0] / manifest.MANIFEST).exists():
            return found[0]
        raise VerificationError(f"{path} is not a package: {found[0].name} holds no {manifest.MANIFEST}")
    names = ", ".join(entry.name for entry in found[:5]) or "nothing"
    raise VerificationError(f"{path} is not a package: expected one folder with a {manifest.MANIFEST}, found {names}")


def _overlays(folder: Path) -> tuple[str, ...]:
    if folder.is_symlink() or not folder.is_dir():
        return ()
    names = [entry.name for entry in folder.iterdir() if (entry / "kustomization.yaml").is_file()]
    return tuple(sorted(names, key=lambda name: (name != "multi-node", name)))

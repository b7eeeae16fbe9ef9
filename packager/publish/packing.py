"""Returns the archive that is pushed: the one that was named, unchanged, or a new one of a folder.

Tests: publish/test_registry.py.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import ToolError, UsageError, reason
from packager.base.fetch import digest_of
from packager.package import archive, inventory, tree
from packager.package.layout import INVENTORY
from packager.package.tree import Entry
from packager.publish.artefact import Layer
from packager.publish.upload import Descriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from packager.package.opened import Package

# Files that Flux leaves out of what it unpacks (fluxcd/pkg, sourceignore): a package that needs one fails there.
_DROPPED = re.compile(
    r"(.*/)?([^/]+\.(jpg|jpeg|gif|png|wmv|flv|zip)|[^/]+\.tar\.gz|\.goreleaser\.yml|\.sops\.yaml|\.flux\.yaml"
    r"|\.travis\.yml|\.gitlab-ci\.yml|appveyor\.yml|\.drone\.yml|cloudbuild\.yaml|codeship-services\.yml"
    r"|codeship-steps\.yml)|(.*/)?(\.github|\.circleci|\.git)/.*"
)


@contextmanager
def packed(package: Package, mtime: int) -> Iterator[tuple[Path, Layer, int]]:
    """Yield the archive of a package, the layer that it becomes, and the size of its tar.

    Args:
        package: The package.
        mtime: The time of the files in a new archive, in seconds since 1970.

    Raises:
        UsageError: The package is one with an overlay outside of it.
        VerificationError: The archive is damaged.
        ToolError: A file cannot be read, or there is no room for the archive.
    """
    if package.outside:
        message = f"{package.source} is an overlay outside of its package"
        raise UsageError(message, hint=f"push {package.outside.package}")
    if package.folder != package.source:
        yield package.source, *_layer(package.source, package)
        return
    with workfolder.temporary() as work:
        path = work / f"{package.name}.tar.gz"
        sealed = inventory.content(package.folder)
        try:
            with path.open("wb") as stream:
                archive.write(
                    tree.read(package.folder), stream, mtime=mtime, sealed=Entry(INVENTORY, sealed, len(sealed))
                )
        except OSError as error:
            raise ToolError(f"{package.source} cannot be packed: {reason(error)}") from None
        yield path, *_layer(path, package)


def dropped_by_flux(paths: Iterable[str]) -> list[str]:
    """Return the paths that Flux leaves out when it unpacks an artefact."""
    return [path for path in paths if _DROPPED.fullmatch(path)]


def _layer(path: Path, package: Package) -> tuple[Layer, int]:
    try:
        blob = Descriptor(f"sha256:{digest_of(path)}", path.stat().st_size)
    except OSError as error:
        raise ToolError(f"{path} cannot be read: {reason(error)}") from None
    digest, size = archive.tar_digest(path)
    return Layer(f"{package.name}.tar.gz", blob, f"sha256:{digest}"), size

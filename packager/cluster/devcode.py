"""Reads the code that `mlpack dev` copies: that of a model's folder by its spec, or that of a package's folder.

Nothing outside of the folder is read: a spec names no file outside, and no link in a package is followed.
"""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from packager.base import plainfiles
from packager.base.errors import SpecError, UsageError, VerificationError
from packager.base.limits import Limits
from packager.kubernetes.configmap import CODE_BYTES, CODE_PARTS
from packager.modelspec.load import load
from packager.package import layout, tree
from packager.package.path_checks import ContentError, inactive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from packager.modelspec.settings import Setting

_LIMITS = Limits(size=CODE_PARTS * CODE_BYTES, files=10_000)

State = frozenset[tuple[object, ...]]
"""The times, sizes and inodes of files and folders."""


@dataclass(frozen=True, slots=True)
class Code:
    """The files of a model's code, by their paths below the folder of the code."""

    files: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """The digest of the names and contents."""
        parts = (f"{hashlib.sha256(content).hexdigest()} {path}\n" for path, content in sorted(self.files.items()))
        return hashlib.sha256("".join(parts).encode(errors="surrogateescape")).hexdigest()

    def changes(self, earlier: Code) -> list[str]:
        """Return the paths that are new, changed or no longer exist."""
        paths = sorted({*self.files, *earlier.files})
        return [path for path in paths if self.files.get(path) != earlier.files.get(path)]

    def archive(self, moment: datetime) -> bytes:
        """Return the files as a tar; all have the time `moment`, by which Python finds compiled code to be old."""
        archive = bytearray()
        for path, content in sorted(self.files.items()):
            header = tarfile.TarInfo(path)
            header.size, header.mode, header.mtime = len(content), 0o755, int(moment.timestamp())
            archive += header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
        return bytes(archive + bytes(2 * tarfile.BLOCKSIZE))


class CodeFolder(Protocol):
    """A folder with code."""

    def state(self) -> State:
        """Return the state of the files of the last `read`; as long as it is the same, the code is."""

    def read(self) -> Code:
        """Return the code. Raises MlpackError if some of it cannot be used."""


@dataclass
class ModelCode:
    """The code of a variant of a model."""

    spec: Path  # the spec file
    settings: Sequence[Setting]  # the changes of the spec
    variant: tuple[str | None, str | None]  # the precision and the mode of the variant
    _places: frozenset[Path] = frozenset()

    def state(self) -> State:
        """Return the state of the spec, of the files of the code, and of their folders."""
        return _state(self._places)

    def read(self) -> Code:
        """Return the code.

        Raises:
            SpecError: The spec is not valid, or has no such variant, or a file is missing or leads out of the folder.
        """
        self._places = self._places | _with_folders([self.spec], self.spec.parent)
        loaded = load(self.spec, self.settings)
        variants = [(variant.precision, variant.mode) for variant in loaded.spec.variants]
        if self.variant not in variants:
            raise SpecError(f"{self.spec} has no longer the variant that runs")
        files = loaded.sources.code(loaded.spec.code_places(variants.index(self.variant)))
        self._places = _with_folders([self.spec, *(file.path for file in files)], self.spec.parent)
        # A valid spec has no more code than is read.
        return Code({file.name: file.content or b"" for file in files})


@dataclass
class PackageCode:
    """The code of a package's folder."""

    folder: Path  # the folder of the package
    _places: frozenset[Path] = frozenset()

    @property
    def _code(self) -> Path:
        return self.folder / layout.SCRIPTS

    def state(self) -> State:
        """Return the state of the files of the code, and of their folders."""
        return _state(self._places)

    def read(self) -> Code:
        """Return the code.

        Raises:
            UsageError: The package has no code.
            VerificationError: There is a link, a name that a package may not have, or more than ConfigMaps can hold.
            ToolError: A file cannot be read.
        """
        if not self._code.is_dir() or self._code.is_symlink():
            raise UsageError(f"{self.folder} has no code: {layout.SCRIPTS} not found")
        self._places = self._places | {self._code}
        entries = tree.walk(self._code, _LIMITS)
        self._places = _with_folders([self._code / entry.path for entry in entries], self._code)
        files = {}
        for entry in entries:
            if entry.path in layout.KUSTOMIZATIONS:
                continue
            file = str(self._code / entry.path)
            try:
                inactive(entry.path)
            except ContentError as error:
                raise VerificationError(f"{file}: {error}") from None
            files[entry.path] = plainfiles.read(self._code, entry.path, file, CODE_BYTES)
        return Code(files)


def _with_folders(files: Iterable[Path], top: Path) -> frozenset[Path]:
    """Return files, and the folders above them up to `top`: a new file changes the time of its folder."""
    places = {top}
    for file in files:
        places.add(file)
        places.update(folder for folder in file.parents if folder.is_relative_to(top))
    return frozenset(places)


def _state(places: Iterable[Path]) -> State:
    entries: set[tuple[object, ...]] = set()
    for place in places:
        try:
            status = place.lstat()
        except OSError as error:
            entries.add((place, error.errno))
            continue
        entries.add((place, status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode))
    return frozenset(entries)

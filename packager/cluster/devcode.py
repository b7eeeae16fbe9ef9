"""Reads the code that `mlpack dev` copies: that of a model's folder by its spec, or that of a package's folder.

Nothing outside of the folder is read: a spec names no file outside, and no link in a package is followed.
"""

import hashlib
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from packager.base import paths
from packager.base.errors import SpecError, UsageError, VerificationError
from packager.base.paths import Limits
from packager.kubernetes.configmap import CODE_BYTES, CODE_PARTS
from packager.modelspec.load import load
from packager.modelspec.settings import Setting
from packager.package import layout, tree
from packager.package.path_checks import ContentError, inactive

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

    def changes(self, earlier: "Code") -> list[str]:
        """Return the paths that are new, changed or no longer exist."""
        names = sorted({*self.files, *earlier.files})
        return [path for path in names if self.files.get(path) != earlier.files.get(path)]

    def archive(self, moment: datetime) -> bytes:
        """Return the files as a tar; all have the time `moment`, by which Python finds compiled code to be old."""
        archive = bytearray()
        for path, content in sorted(self.files.items()):
            header = tarfile.TarInfo(path)
            header.size, header.mode, header.mtime = len(content), 0o755, int(moment.timestamp())
            archive += header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)
        return bytes(archive + bytes(2 * tarfile.BLOCKSIZE))


class CodeFolder:
    """A folder with code."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self._paths: set[Path] = set()

    def state(self) -> State:
        """Return the state of the files of the last `read`, and of their folders."""
        entries: set[tuple[object, ...]] = set()
        for path in self._paths:
            try:
                status = path.lstat()
            except OSError as error:
                entries.add((path, error.errno))
            else:
                entries.add((path, status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode))
        return frozenset(entries)

    def read(self) -> Code:
        """Return the code. Raises MlpackError if some of it cannot be used."""
        raise NotImplementedError

    def _watch(self, files: Iterable[Path]) -> None:
        """Watch files, and the folders above them up to the top: a new file changes the time of its folder."""
        files = set(files)
        above = {folder for file in files for folder in file.parents if folder.is_relative_to(self.top)}
        self._paths = {self.top, *files, *above}


class ModelCode(CodeFolder):
    """The code of a variant of a model.

    `variant` are its precision and its mode.
    """

    def __init__(self, spec: Path, settings: Sequence[Setting], variant: tuple[str | None, str | None]) -> None:
        super().__init__(spec.parent)
        self._spec, self._settings, self._variant = spec, settings, variant

    def read(self) -> Code:
        """Return the code."""
        self._watch([self._spec, *self._paths])
        loaded = load(self._spec, self._settings)
        variants = [(variant.precision, variant.mode) for variant in loaded.spec.variants]
        if self._variant not in variants:
            raise SpecError(f"{self._spec} has no longer the variant that runs")
        files = loaded.sources.code(loaded.spec.code_places(variants.index(self._variant)))
        self._watch([self._spec, *(file.path for file in files)])
        # A valid spec has no more code than is read.
        return Code({file.name: file.content or b"" for file in files})


class PackageCode(CodeFolder):
    """The code of a package's folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / layout.SCRIPTS)
        self.folder = folder

    def read(self) -> Code:
        """Return the code."""
        if not self.top.is_dir() or self.top.is_symlink():
            raise UsageError(f"{self.folder} has no code: {layout.SCRIPTS} not found")
        self._watch(self._paths)
        entries = tree.walk(self.top, _LIMITS)
        self._watch(self.top / entry.path for entry in entries)
        files = {}
        for path in (entry.path for entry in entries if entry.path not in layout.KUSTOMIZATIONS):
            file = str(self.top / path)
            try:
                inactive(path)
            except ContentError as error:
                raise VerificationError(f"{file}: {error}") from None
            files[path] = paths.read(self.top, path, file, CODE_BYTES)
        return Code(files)

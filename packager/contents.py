"""What a package may contain: paths that mean one file below its root wherever it is unpacked, and not too much."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_PATH_BYTES = 1_024
_PART_BYTES = 255
_DEPTH = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a package from somebody else may take of this machine.

    Attributes:
        size: Bytes of all files together.
        files: How many files and folders.
        ratio: Bytes that come out of an archive for each one that goes in. gzip's own limit is about 1,030;
            code and weights stay far below 100. The first 16 MiB are free.
    """

    size: int = 64 << 30
    files: int = 50_000
    ratio: int = 200


DEFAULT = Limits()


class ContentError(Exception):
    """Something that may not stand in a package; the message says what, and why."""


class Contents:
    """The files and folders of one package, taken one by one.

    Paths are told apart as the least careful file system does it: by neither case nor Unicode form.
    """

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._seen: dict[str, tuple[str, bool]] = {}
        self._size = 0
        self._count = 0

    def add_folder(self, path: str) -> str:
        """Take the folder `path` and return its plain form. Raises ContentError."""
        return self._add(path, folder=True)

    def add_file(self, path: str, size: int) -> str:
        """Take the file `path` and return its plain form. Raises ContentError."""
        plain = self._add(path, folder=False)
        self._size += size
        if size < 0 or self._size > self._limits.size:
            raise ContentError(f"the files are larger than {self._limits.size:,} bytes together")
        return plain

    def _add(self, path: str, *, folder: bool) -> str:
        plain = normal(path)
        if not plain and not folder:
            raise ContentError("a file has no name")
        self._count += 1
        if self._count > self._limits.files:
            raise ContentError(f"there are more than {self._limits.files:,} files and folders")
        parts = plain.split("/")
        for depth in range(1, len(parts)):
            self._take("/".join(parts[:depth]), folder=True)
        self._take(plain, folder=folder)
        return plain

    def _take(self, path: str, *, folder: bool) -> None:
        key = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
        if key not in self._seen:
            self._seen[key] = (path, folder)
            return
        before, was_folder = self._seen[key]
        if before != path:
            raise ContentError(f"{shown(path)} and {shown(before)} are the same where case does not count")
        if folder != was_folder:
            raise ContentError(f"{shown(path)} is both a file and a folder")
        if not folder:
            raise ContentError(f"{shown(path)} is there twice")


def normal(path: str) -> str:
    """Return `path` without the `./` and doubled slashes that some archivers write; empty for the root itself.

    Args:
        path: With `/`; bytes that are not UTF-8 as surrogates (PEP 383), as tarfile and os give them.

    Raises:
        ContentError: It is absolute, climbs, is not UTF-8, holds control characters, or is too long.
    """
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise ContentError(f"{shown(path)}: the name is not UTF-8") from None
    if any(unicodedata.category(character) == "Cc" for character in path):
        raise ContentError(f"{shown(path)}: the name holds control characters")
    if path.startswith("/"):
        raise ContentError(f"{shown(path)}: the path is absolute")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ContentError(f"{shown(path)}: the path leads out of the package")
    if size > _PATH_BYTES or len(parts) > _DEPTH or any(len(part.encode()) > _PART_BYTES for part in parts):
        raise ContentError(f"{shown(path)}: the path is too long or too deep")
    return "/".join(parts)


def shown(path: str) -> str:
    """Return `path` for a message: short, and escaped where a terminal would not show it as it is."""
    short = path if len(path) <= 120 else f"{path[:117]}..."
    return short if short.isprintable() and short.strip() == short and short else ascii(short)

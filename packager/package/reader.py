"""Reads a package's files so that every later step sees the same bytes."""

from __future__ import annotations

import hashlib
from types import MappingProxyType
from typing import TYPE_CHECKING

from packager.base import plainfiles
from packager.base.errors import ToolError, VerificationError, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


class Reader:
    """The files of one package, each of which must not change after it was first read.

    Files are judged, rendered and applied at different times. Digests are kept, and not contents: a package may
    be larger than memory.
    """

    def __init__(
        self, folder: Path, shown: Callable[[str], str], edited: Mapping[str, bytes] = MappingProxyType({})
    ) -> None:
        self.folder = folder  # the folder with the files
        self.shown = shown  # returns the name of a path of the package for messages
        self._edited = edited
        self._digests: dict[str, str] = {}

    def edited(self, contents: Mapping[str, bytes]) -> Reader:
        """Return a reader of the same files, which must not change either, with other contents in some, by path."""
        reader = Reader(self.folder, self.shown, contents)
        reader._digests = self._digests
        return reader

    @property
    def added(self) -> tuple[str, ...]:
        """The paths of files that are not there yet."""
        return tuple(path for path in self._edited if not (self.folder / path).exists())

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the content of a file; of one that is longer than `max_bytes` bytes, a byte more than these.

        Raises:
            VerificationError: The file is not a plain one.
            ToolError: The file cannot be read, or has changed since it was read first.
        """
        if path in self._edited:
            return self._edited[path][: max_bytes + 1]
        content = plainfiles.read_start(self.folder, path, self.shown(path), max_bytes + 1)
        if len(content) <= max_bytes:
            digest = hashlib.sha256(content).hexdigest()
            if self._digests.setdefault(path, digest) != digest:
                raise ToolError(
                    f"{self.shown(path)} changed while the package was read",
                    hint="try again when no program is writing to it",
                )
        return content

    def digest(self, path: str) -> str:
        """Return the sha256 of a file, in hex: of the bytes read first, if it was read before."""
        if path in self._edited:
            return hashlib.sha256(self._edited[path]).hexdigest()
        if path not in self._digests:
            try:
                with plainfiles.open_below(self.folder, path) as stream:
                    self._digests[path] = hashlib.file_digest(stream, "sha256").hexdigest()
            except plainfiles.NotPlainError:
                raise VerificationError(f"{self.shown(path)} is not a plain file") from None
            except OSError as error:
                raise unreadable(self.shown(path), error) from None
        return self._digests[path]

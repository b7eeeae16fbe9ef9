"""Defines how large a package may be: its size, its files, and its extracted archive. Tests: test_bounds.py."""

from __future__ import annotations

from packager.base.values import Value

# Below this much output no ratio is a bomb's.
_FREE_BYTES = 16 << 20


class Limits(Value, frozen=True):
    """The resources of this machine that an untrusted package may use."""

    size: int = 64 << 30  # bytes of all files together
    files: int = 50_000
    """The number of files and folders, with the folders that only are in paths, and the package's own."""
    ratio: int = 200
    """Bytes that come out of an archive for each one of its size. gzip's own limit is about 1,030; code and weights
    stay far below 100. The first 16 MiB are free.
    """

    def is_bomb(self, unpacked: int, packed: int) -> bool:
        """Whether an archive of the size `packed` expands so much that it must be a decompression bomb."""
        return unpacked > _FREE_BYTES and unpacked > self.ratio * packed


DEFAULT = Limits()

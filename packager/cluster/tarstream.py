"""Reads a tar stream from a pod in small pieces, in every format that GNU tar and busybox tar write.

The stream is not trusted: headers are limited to 64 KiB, and all bytes are counted.

Tests: cluster/test_receive.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from packager.package.path_checks import ContentError
from packager.package.tarheader import BLOCK, DamageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.limits import Limits

SPARSE = b"S"

# Links, devices and folders have no content, whatever size their header claims.
_EMPTY = b"123456"
_EXTENSIONS = b"LKNxgX"

# A path is at most 4 KiB long, and no other record of an extended header is needed.
_EXTENSION_BYTES = 64 << 10
_MAX_EXTENSIONS = 8

_CHUNK = 1 << 20

# More bytes than tar uses to fill its last record, which is 10 KiB by default.
_TAIL = 1 << 20


_RECORD = re.compile(rb"([1-9][0-9]{0,4}) ")


class LimitError(ContentError):
    """The archive exceeds the limits."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The header of a member.

    Attributes:
        path: The path in the header, with surrogates for bytes that are not UTF-8.
        kind: The type flag.
        size: The number of bytes of content.
        mode: The permissions.
        mtime: The time of the last change, in seconds since 1970.
        target: The path that a link refers to, encoded as `path` is.
        is_known: Whether all extended headers were understood; otherwise the path may be wrong.
    """

    path: str
    kind: int
    size: int
    mode: int
    mtime: int
    target: str
    is_known: bool = True


class TarStream:
    """A reader of the members of a tar, one after the other; `chunks` yields the content of the current one."""

    def __init__(self, stream: IO[bytes], limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._count = 0
        self._size = 0
        self._left = 0
        self._fill = 0

    def members(self) -> Iterator[Arrival]:
        """Yield the members; content that was not read is skipped.

        Raises:
            DamageError: The tar is damaged, or ends too early.
            LimitError: The archive exceeds the limits.
        """
        while (member := self._member()) is not None:
            self._count += 1
            if self._count > self._limits.files:
                raise LimitError(f"the archive contains more than {self._limits.files:,} files and folders")
            self._expect(member.size)
            yield member
            for _ in self.chunks():
                pass
        left = _TAIL
        while data := self._stream.read(min(left, _CHUNK)):
            left -= len(data)
            if not left:
                raise DamageError("it has data after its end")

    def chunks(self) -> Iterator[bytes]:
        """Yield the unread content of the current member, at most 1 MiB at a time. Raises DamageError."""
        while self._left:
            chunk = self._read(min(self._left, _CHUNK))
            self._left -= len(chunk)
            yield chunk
        self._read(self._fill)
        self._fill = 0

    def count(self, size: int) -> None:
        """Add bytes to the size that the limits apply to. Raises LimitError."""
        self._size += size
        if self._size > self._limits.size:
            raise LimitError(f"the archive contains more than {self._limits.size:,} bytes")

    def _expect(self, size: int) -> None:
        self.count(size)
        self._left, self._fill = size, -size % BLOCK

    def _read(self, size: int) -> bytes:
        parts = []
        while size:
            data = self._stream.read(size)
            if not data:
                raise DamageError("it ends too early")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)

    def _member(self) -> Arrival | None:
        """Return the next member, with the values of its extended headers; None at the end."""
        records: dict[str, bytes] = {}
        is_known = True
        for _ in range(_MAX_EXTENSIONS):
            block = self._read(BLOCK)
            if not any(block):
                return None
            header = _parsed(block)
            if header.kind in _EXTENSIONS:
                is_known &= self._extend(records, header)
                continue
            more = header.kind in SPARSE and block[482]
            while more:
                self._expect(BLOCK)
                more = next(self.chunks())[504]
            return _with_records(header, records, is_known=is_known)
        raise DamageError("it has too many headers in a row")

    def _extend(self, records: dict[str, bytes], header: Arrival) -> bool:
        """Add the values of an extended header to `records`, and return whether it was understood."""
        self._expect(header.size)
        if header.size > _EXTENSION_BYTES:
            for _ in self.chunks():
                pass
            return False
        content = b"".join(self.chunks())
        if header.kind in b"LK":
            records["path" if header.kind in b"L" else "linkpath"] = content.partition(b"\0")[0]
        elif header.kind in b"x":
            try:
                records |= _read_records(content)
            except ContentError:
                return False
        return True


def _with_records(header: Arrival, records: dict[str, bytes], *, is_known: bool) -> Arrival:
    path, target = (
        records[key].decode("utf-8", "surrogateescape") if key in records else value
        for key, value in (("path", header.path), ("linkpath", header.target))
    )
    size, kind = header.size, header.kind
    if size_record := records.get("size"):
        if not size_record.isdigit() or len(size_record) > 18:
            raise DamageError("a size is not a number")
        size = int(size_record)
    if any(key.startswith("GNU.sparse.") for key in records):
        kind = SPARSE[0]
        path = records.get("GNU.sparse.name", path.encode(errors="surrogateescape")).decode("utf-8", "surrogateescape")
    return Arrival(path, kind, 0 if kind in _EMPTY else size, header.mode, header.mtime, target, is_known)


def _parsed(block: bytes) -> Arrival:
    if _number(block[148:156]) != sum(block) - sum(block[148:156]) + 8 * ord(" "):
        raise DamageError("a header's checksum is wrong")
    size = _number(block[124:136])
    if size < 0:
        raise DamageError("a size is negative")
    target = block[157:257].partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return Arrival(_path(block), block[156], size, _number(block[100:108]), _number(block[136:148]), target)


def _number(field: bytes) -> int:
    """Return a number from octal digits, or from base 256, which GNU tar uses for large and negative numbers."""
    if field[0] & 0x80:
        is_negative = field[0] & 0x40
        return -1 if is_negative else int.from_bytes(bytes((field[0] & 0x3F,)) + field[1:], "big")
    digits = field.partition(b"\0")[0].strip(b" ")
    if digits.strip(b"01234567"):
        raise DamageError("a number in a header is invalid")
    return int(digits or b"0", 8)


def _path(block: bytes) -> str:
    """Return the path in a header; the prefix belongs to it in ustar only."""
    prefix = block[345:500].partition(b"\0")[0] if block[257:265] == b"ustar\x0000" else b""
    name = block[:100].partition(b"\0")[0]
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")


def _read_records(content: bytes) -> dict[str, bytes]:
    """Return the records of an extended header, each of the form LENGTH KEY=VALUE and a line feed.

    Raises:
        DamageError: The content has another form, or a key twice.
    """
    records: dict[str, bytes] = {}
    start = 0
    while start < len(content):
        length = _RECORD.match(content, start)
        end = start + int(length[1]) if length else 0
        record = content[length.end() : end] if length else b""
        key, equals, value = record[:-1].partition(b"=")
        text = key.decode("utf-8", "backslashreplace")
        if end > len(content) or record[-1:] != b"\n" or not equals or text in records:
            raise DamageError("an extended header is invalid")
        records[text] = value
        start = end
    return records

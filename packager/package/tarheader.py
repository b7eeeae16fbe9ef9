"""Writes the headers of tar archives in one form, which every tar reads alike, and reads what has exactly this form.

`tarfile` parses a header, the header is written again from what it says, and both have to be the same bytes.

Sources: POSIX pax, "ustar Interchange Format" and "pax Interchange Format".
"""

from __future__ import annotations

import re
import struct
import tarfile
from typing import TYPE_CHECKING

from packager.package.path_checks import ContentError, normalized, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 512
RECORD = 20 * BLOCK

_USTAR = b"ustar\x0000"
_NAME_BYTES = 100
_PREFIX_BYTES = 155

# The written fields: name and numbers; kind, link, format, owner's names, devices and prefix.
_BEFORE_CHECKSUM = struct.Struct("100s48s")
_AFTER_CHECKSUM = struct.Struct("c100x8s80x155s12x")
_BLANKS = 8 * ord(" ")

# The largest number of eleven octal digits: a larger size, or time, is in an extended header.
_LARGEST_OCTAL = 8**11 - 1

# A path is at most 1 KiB long, and other programs add three times.
_EXTENDED_BYTES = 4 << 10
_RECORDS = re.compile(rb"[0-9]+ (?:path=([^\n]+)|size=([0-9]{1,18})|mtime=(-?[0-9]{1,18}))\n")


class FormError(ContentError):
    """A header in another form than ours: another program has packed the files."""


class DamageError(ContentError):
    """No tar archive, or a damaged one."""


def of_file(path: str, size: int, mode: int, mtime: int) -> bytes:
    """Return the header of a file, with an extended one before it where one block cannot hold everything.

    A size above 8 GiB is in both, in the block in base 256: busybox reads no size in an extended header. A path
    that is not ASCII is in the block only, unchanged: one in an extended header is converted by GNU tar and bsdtar
    to the charset of the user who unpacks it, and may lose characters.

    Raises:
        ContentError: The path is not ASCII, and too long for the block.
    """
    prefix, name = ("", path) if path.isascii() else _split(path)
    extension = {}
    if len(name) > _NAME_BYTES:
        extension["path"], name = path, name[:_NAME_BYTES]
    if size > _LARGEST_OCTAL:
        extension["size"] = str(size)
    if not 0 <= mtime <= _LARGEST_OCTAL:
        extension["mtime"], mtime = str(mtime), 0
    block = _block((prefix, name), tarfile.REGTYPE, size, mode, mtime)
    if not extension:
        return block
    content = b"".join(_record(key, value) for key, value in extension.items())
    extended = _block(("", "././@PaxHeader"), tarfile.XHDTYPE, len(content), 0, 0)
    return extended + content + bytes(-len(content) % BLOCK) + block


def _split(path: str) -> tuple[str, str]:
    """Return prefix and name of a path; the prefix as short as can be."""
    parts = path.split("/")
    for count in range(len(parts)):
        prefix, name = "/".join(parts[:count]), "/".join(parts[count:])
        if len(prefix.encode()) <= _PREFIX_BYTES and len(name.encode()) <= _NAME_BYTES:
            return prefix, name
    raise ContentError(f"{shown(path)}: the path is too long for one that is not ASCII")


def is_tar(block: bytes) -> bool:
    """Return whether a block is the header of a tar archive, of whatever form."""
    return block[257:262] == b"ustar"


def members(read: Callable[[int], bytes], *, is_ours: bool = True) -> Iterator[tarfile.TarInfo]:
    """Yield the files and folders of an archive, up to and with the two empty blocks that end it.

    Args:
        read: Returns so many bytes, not fewer. Between two members, the caller reads the content and what fills its
            last block.
        is_ours: Whether all headers have to be as `of_file` makes them, so that there are no folders.

    Raises:
        FormError: A header is in another form.
        DamageError: A block is not a header.
        ContentError: A member is a link, a device or something else, or its path is not allowed.
    """
    while any(header := read(BLOCK)):
        member = _parse(header)
        if member.type == tarfile.XHDTYPE:
            if not 0 < member.size <= _EXTENDED_BYTES:
                raise FormError(f"an extended header has {member.size:,} bytes, not 1 to {_EXTENDED_BYTES:,}")
            records = read(member.size)
            fill, block = read(-member.size % BLOCK), read(BLOCK)
            header += records + fill + block
            member = _parse(block)
            for path, size, mtime in _RECORDS.findall(records):
                member.name = path.decode("utf-8", "surrogateescape") or member.name
                member.size, member.mtime = int(size or member.size), int(mtime or member.mtime)
        if member.type not in (tarfile.REGTYPE, tarfile.DIRTYPE):
            raise ContentError(f"{shown(member.name)} is not a plain file, but a package contains only plain files")
        if is_ours and not _is_ours(member, header):
            raise FormError(f"{shown(member.name)} was packed by another program than mlpack")
        yield member
    if any(read(BLOCK)):
        raise FormError("there is an empty block in the middle, which some readers take as the end")


def _parse(block: bytes) -> tarfile.TarInfo:
    try:
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise DamageError(f"a header is damaged: {error}") from None
    if member.size < 0:
        raise DamageError("a header is damaged: its size is negative")
    return member


def _is_ours(member: tarfile.TarInfo, header: bytes) -> bool:
    """Return whether a build makes the same header. Raises ContentError if the path is not allowed."""
    same = of_file(normalized(member.name), member.size, member.mode, int(member.mtime))
    return member.mode in (0o644, 0o755) and header == same


def _record(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _block(path: tuple[str, str], kind: bytes, size: int, mode: int, mtime: int) -> bytes:
    prefix, name = path
    length = b"%011o\0" % size if size <= _LARGEST_OCTAL else b"\x80" + size.to_bytes(11, "big")
    numbers = b"%07o\0%07o\0%07o\0" % (mode, 0, 0) + length + b"%011o\0" % mtime
    before, after = _BEFORE_CHECKSUM.pack(name.encode(), numbers), _AFTER_CHECKSUM.pack(kind, _USTAR, prefix.encode())
    return before + b"%06o\0 " % (sum(before) + sum(after) + _BLANKS) + after

"""Writes and reads the headers of tar archives, in the one form that every tar reads the same way.

Sources: POSIX pax, "ustar Interchange Format" and "pax Interchange Format"; the sources of GNU tar, libarchive and
busybox, for what each of them makes of everything else.
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING

from packager.base.values import Value, replace
from packager.package.path_checks import ContentError, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BLOCK = 512
RECORD = 20 * BLOCK

FILE = b"0"
FOLDER = b"5"
EXTENDED = b"x"

MAGIC = slice(257, 265)
USTAR = b"ustar\x0000"
GNU = b"ustar  \0"

_NAME = slice(0, 100)
_MODE = slice(100, 108)
_SIZE = slice(124, 136)
_MTIME = slice(136, 148)
_CHECKSUM = slice(148, 156)
_KIND = slice(156, 157)
_PREFIX = slice(345, 500)
_PREFIX_BYTES = 155

# The written fields: name and numbers; kind, link, format, owner's names, devices and prefix.
_BEFORE_CHECKSUM = struct.Struct("100s48s")
_AFTER_CHECKSUM = struct.Struct("c100x8s80x155s12x")
_BLANKS = 8 * ord(" ")

_NUMBERS = {"mode": _MODE, "owner": slice(108, 116), "group": slice(116, 124), "size": _SIZE, "time": _MTIME}
_DEVICES = {"device": slice(329, 337), "minor device": slice(337, 345)}
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_NAMES = {"name": _NAME, "owner's name": slice(265, 297), "group's name": slice(297, 329), "prefix": _PREFIX}
_EMPTY = {"link": slice(157, 257), "end": slice(500, 512)}

# Each fills its field: with digits, and what ends them. GNU tar writes the first form, bsdtar both.
_OCTAL = {8: re.compile(rb"[0-7]{7}[\0 ]|[0-7]{6} \0"), 12: re.compile(rb"[0-7]{11}[\0 ]|[0-7]{10} \0")}
_SUM = re.compile(rb"[0-7]{6}\0 ")

# The largest number of eleven octal digits: a larger size, or time, is in an extended header.
_LARGEST_OCTAL = 8**11 - 1

# A path is at most 1 KiB long, and GNU tar adds three times.
_EXTENDED_BYTES = 4 << 10
_RECORD = re.compile(rb"([1-9][0-9]{0,4}) ")
_TIMES = frozenset(("mtime", "atime", "ctime"))
_TIME = re.compile(rb"-?[0-9]{1,11}(\.[0-9]{1,9})?")

_KINDS = {
    b"\0": "a file of the old tar format (v7)",
    b"1": "a hard link",
    b"2": "a link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_EXTENSIONS = {
    b"g": "a global header",
    b"L": "a GNU header for a long name",
    b"K": "a GNU header for a long link",
    b"X": "a Solaris header",
}


class FormError(ContentError):
    """A header in a form that not every tar reads alike; packing the same files again avoids it.

    Args:
        message: The message.
        form: The format of tar that can hold the files.
    """

    def __init__(self, message: str, form: str = "ustar") -> None:
        super().__init__(message)
        self.form = form


class DamageError(ContentError):
    """No tar archive, or a damaged one."""


class Member(Value, frozen=True):
    """A file or a folder in an archive.

    Attributes:
        path: The path as written; bytes that are not UTF-8 as surrogates.
        kind: FILE, FOLDER or EXTENDED; a lenient reader returns others too.
        size: The bytes of content that follow.
        mode: Permissions.
    """

    path: str
    kind: bytes
    size: int
    mode: int


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
    if len(name) > _NAME.stop:
        extension["path"], name = path, name[: _NAME.stop]
    if size > _LARGEST_OCTAL:
        extension["size"] = str(size)
    if not 0 <= mtime <= _LARGEST_OCTAL:
        extension["mtime"], mtime = str(mtime), 0
    block = _block((prefix, name), FILE, size, mode, mtime)
    if not extension:
        return block
    content = b"".join(_record(key, value) for key, value in extension.items())
    return _block(("", "././@PaxHeader"), EXTENDED, len(content), 0, 0) + content + bytes(-len(content) % BLOCK) + block


def _split(path: str) -> tuple[str, str]:
    """Return prefix and name of a path; the prefix as short as can be."""
    parts = path.split("/")
    for count in range(len(parts)):
        prefix, name = "/".join(parts[:count]), "/".join(parts[count:])
        if len(prefix.encode()) <= _PREFIX_BYTES and len(name.encode()) <= _NAME.stop:
            return prefix, name
    raise ContentError(f"{shown(path)}: the path is too long for one that is not ASCII")


def is_tar(block: bytes) -> bool:
    """Return whether a block is the header of a tar archive, of whatever form."""
    return block[MAGIC] in (USTAR, GNU)


def members(read: Callable[[int], bytes]) -> Iterator[Member]:
    """Yield the files and folders of an archive, up to and with the two empty blocks that end it.

    What is accepted is what `of_file` makes, folders, and what a ustar archive of tar has beside: owners, and the
    times in an extended header. Every tar reads that alike; whatever else some tar reads is refused.

    Args:
        read: Returns so many bytes, not fewer. Between two members, the caller reads the content and what fills its
            last block.

    Raises:
        FormError: A header is in another form.
        DamageError: A block is not a header.
        ContentError: A member is neither a file nor a folder.
    """
    while any(block := read(BLOCK)):
        member = _parsed(block)
        if member.kind == EXTENDED:
            extension = _records(_content(read, member), member.path)
            if not any(block := read(BLOCK)):
                raise FormError("the last header is an extended one, but nothing follows it")
            size = block[_SIZE]
            member = _parsed(block, extension.get("size"))
            path = extension.get("path", b"").decode("utf-8", "surrogateescape") or member.path
            if member.kind == EXTENDED:
                raise FormError(f"{shown(path)} has two extended headers in a row")
            if "size" in extension and size != _base_256(member.size):
                raise FormError(f"{shown(path)} has a size in its extended header and another one in its header")
            member = replace(member, path=path)
        yield member
    if any(read(BLOCK)):
        raise FormError("there is an empty block in the middle, which some readers take as the end")


def _content(read: Callable[[int], bytes], member: Member) -> bytes:
    """Return the content of an extended header."""
    if not 0 < member.size <= _EXTENDED_BYTES:
        raise FormError(f"{shown(member.path)} is an extended header of {member.size:,} bytes, not 1 to 4,096")
    content = read(member.size)
    if any(read(-member.size % BLOCK)):
        raise FormError(f"{shown(member.path)} is an extended header with data after its end")
    return content


def _parsed(block: bytes, large: bytes | None = None) -> Member:
    """Return the member of a header, whose extended header gives the size `large` if any; every byte is checked."""
    kind = block[_KIND]
    path = path_of(block)
    name = shown(path)
    _check_checksum(block, name)
    if kind in _EXTENSIONS:
        form = "posix" if kind == b"L" else "ustar"
        raise FormError(f"{name} is {_EXTENSIONS[kind]}, which not every tar can read", form)
    if kind not in (FILE, FOLDER, EXTENDED):
        raise ContentError(
            f"{name} is {_KINDS.get(kind, 'of an unusual type')}, but a package contains only plain files"
        )
    if complaint := next(_form_complaints(block, has_size=large is None), None):
        raise FormError(f"{name}{complaint}")
    if not block[0]:
        raise FormError("a header has no name")
    size = int(large or b"%d" % _octal(block[_SIZE]))
    if kind == FOLDER and size:
        raise FormError(f"{name} is a folder of {size:,} bytes")
    return Member(path, kind, size, _octal(block[_MODE]))


def _form_complaints(block: bytes, *, has_size: bool) -> Iterator[str]:
    """Yield the differences of a header from one of ustar, as ends of a message that begins with the name."""
    if block[MAGIC] != USTAR:
        form = "GNU" if block[MAGIC] == GNU else "unknown" if any(block[MAGIC]) else "old"
        yield f" has a header of the {form} tar format, expected ustar"
    for field, field_slice in _NAMES.items():
        if any(block[field_slice].partition(b"\0")[2]):
            yield f": unexpected data after the end of the {field} in its header"
    for field in ("owner's name", "group's name"):
        if _CONTROL.search(block[_NAMES[field]].rstrip(b"\0")):
            yield f": the {field} in its header contains control characters"
    for field, field_slice in _EMPTY.items():
        if any(block[field_slice]):
            yield f": the field for the {field} in its header is not empty"
    numbers = [number for number in _NUMBERS.items() if has_size or number[0] != "size"]
    numbers += [device for device in _DEVICES.items() if any(block[device[1]])]
    for field, field_slice in numbers:
        if not _OCTAL[field_slice.stop - field_slice.start].fullmatch(block[field_slice]):
            yield f": the {field} in its header is {_shown_bytes(block[field_slice])}, expected octal digits"


def _check_checksum(block: bytes, name: str) -> None:
    expected = checksum(block)
    if not _SUM.fullmatch(block[_CHECKSUM]) or _octal(block[_CHECKSUM]) != expected:
        checksum_found = _shown_bytes(block[_CHECKSUM])
        raise DamageError(f"the header of {name} is damaged: its checksum is {checksum_found}, expected {expected:06o}")


def checksum(block: bytes) -> int:
    """Return the sum of a header's bytes, where its own checksum counts as blanks."""
    return sum(block) - sum(block[_CHECKSUM]) + _BLANKS


def _records(content: bytes, name: str) -> dict[str, bytes]:
    """Return the records of an extended header, all of which every tar reads alike."""
    try:
        read = records(content)
    except FormError as error:
        raise FormError(f"{shown(name)}: {error}") from None
    for key, value in read.items():
        if complaint := _record_complaint(key, value):
            raise FormError(f"{shown(name)}: {complaint}")
    return read


def records(content: bytes) -> dict[str, bytes]:
    """Return the records of an extended header, each of the form LENGTH KEY=VALUE and a line feed.

    Raises:
        FormError: The content has another form, or a key twice.
    """
    read: dict[str, bytes] = {}
    start = 0
    while start < len(content):
        length = _RECORD.match(content, start)
        end = start + int(length[1]) if length else 0
        record = content[length.end() : end] if length else b""
        key, equals, value = record[:-1].partition(b"=")
        if end > len(content) or record[-1:] != b"\n" or not equals:
            raise FormError(f"expected LENGTH KEY=VALUE, found {_shown_bytes(content[start : start + 40])}")
        text = key.decode("utf-8", "backslashreplace")
        if text in read:
            raise FormError(f"duplicate key {shown(text)}")
        read[text] = value
        start = end
    return read


def _record_complaint(key: str, value: bytes) -> str | None:
    """Return the error in a record; None if all tars read it alike."""
    if key == "path":
        if not value or b"\0" in value:
            return f"the path {_shown_bytes(value[:40])} is empty or contains a NUL"
        return None if value.isascii() else "a path that is not ASCII must be in the header itself"
    if key == "size":
        is_large = re.fullmatch(rb"[1-9][0-9]{9,17}", value) and int(value) > _LARGEST_OCTAL
        return None if is_large else f"the size {_shown_bytes(value[:40])} must be in the header itself"
    if key in _TIMES:
        return None if _TIME.fullmatch(value) else f"the {key} {_shown_bytes(value[:40])} is not a number of seconds"
    return f"the key {shown(key)} is not one of path, size, mtime, atime, ctime"


def path_of(block: bytes) -> str:
    """Return the path in a header; the prefix belongs to it in ustar only."""
    prefix = block[_PREFIX].partition(b"\0")[0] if block[MAGIC] == USTAR else b""
    name = block[_NAME].partition(b"\0")[0]
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "surrogateescape")


def _octal(field: bytes) -> int:
    return int(field.rstrip(b"\0 "), 8)


def _base_256(number: int) -> bytes:
    return b"\x80" + number.to_bytes(11, "big")


def _shown_bytes(field: bytes) -> str:
    """Return a field's bytes for a message."""
    return repr(field.rstrip(b"\0"))[1:]


def _record(key: str, value: str) -> bytes:
    rest = f" {key}={value}\n".encode()
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _block(path: tuple[str, str], kind: bytes, size: int, mode: int, mtime: int) -> bytes:
    prefix, name = path
    length = b"%011o\0" % size if size <= _LARGEST_OCTAL else _base_256(size)
    numbers = b"%07o\0%07o\0%07o\0" % (mode, 0, 0) + length + b"%011o\0" % mtime
    before, after = _BEFORE_CHECKSUM.pack(name.encode(), numbers), _AFTER_CHECKSUM.pack(kind, USTAR, prefix.encode())
    return before + b"%06o\0 " % (sum(before) + sum(after) + _BLANKS) + after

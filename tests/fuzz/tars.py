"""Makes tar archives header by header: valid ones, and ones that some readers refuse or read differently."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

BLOCK = 512
USTAR, GNU, OLD = b"ustar\x0000", b"ustar  \0", bytes(8)

# The start and end of each field of a header (POSIX pax, ustar Interchange Format), and star's fields in the prefix.
FIELDS = {
    "name": (0, 100), "mode": (100, 108), "uid": (108, 116), "gid": (116, 124), "size": (124, 136),
    "mtime": (136, 148), "checksum": (148, 156), "kind": (156, 157), "link": (157, 257), "magic": (257, 265),
    "uname": (265, 297), "gname": (297, 329), "major": (329, 337), "minor": (337, 345), "prefix": (345, 500),
    "star": (475, 500), "end": (500, 512), "sparse": (386, 483), "real size": (483, 495),
}  # fmt: skip


@dataclass(frozen=True)
class Item:
    """A header and its content."""

    name: bytes
    kind: bytes = b"0"
    content: bytes = b""  # filled up to a block
    mode: int = 0o644
    # the fields with other values, by name; the checksum is correct unless it is among them
    fields: dict[str, bytes] = field(default_factory=dict)
    fill: bytes = b"\0"  # fills the last block
    checksum: Callable[[bytes], bytes] = lambda block: b"%06o\0 " % sum(block)

    def __bytes__(self) -> bytes:
        fields = {
            "name": self.name[:100],
            "mode": b"%07o\0" % self.mode,
            "uid": b"0000000\0",
            "gid": b"0000000\0",
            "size": b"%011o\0" % len(self.content),
            "mtime": b"00000000007\0",
            "kind": self.kind,
            "magic": USTAR,
            "checksum": b" " * 8,
        }
        block = bytearray(BLOCK)
        for name, value in (fields | self.fields).items():
            start, end = FIELDS[name]
            block[start:end] = value[: end - start].ljust(end - start, b"\0")
        if "checksum" not in self.fields:
            block[148:156] = self.checksum(bytes(block))
        return bytes(block) + self.content + self.fill * (-len(self.content) % BLOCK)


def record(key: bytes, value: bytes) -> bytes:
    """Return a record of an extended header."""
    rest = b" " + key + b"=" + value + b"\n"
    length = next(n for n in range(len(rest), len(rest) + 9) if n == len(str(n)) + len(rest))
    return str(length).encode() + rest


def extended(*records: bytes, kind: bytes = b"x") -> Item:
    """Return an extended header."""
    return Item(b"././@PaxHeader", kind, b"".join(records))


def archive(*items: Item | bytes, end: bytes = bytes(2 * BLOCK)) -> bytes:
    """Return a tar of `items`."""
    return b"".join(bytes(item) for item in items) + end


GOOD = (
    Item(b"p/a", content=b"first"),
    Item(b"p/run.sh", content=b"#!/bin/sh\n" * 60, mode=0o755),
    Item(b"p/deep/b", content=b"x" * 512),
    Item(b"p/manifest.json", content=b"{}"),
)
"""The members of a good archive."""

EVIL = b"p/evil.yaml"

NAMES = (
    b"p/a", b"p/A", b"p/a/", b"p/a/.", b"./p/a", b"p//c", b"p/./c", b"/p/c", b"../p/c", b"p/..", b"p/../c", b".", b"/",
    b"", b"p", b"p/", b"p/c\0d", b"p/c\\d", b"p/ c", b"p/c ", b"p/\xff", b"p/\xc3\xa9", b"p/e\xcc\x81", b"p/c\n",
    b"p/" + b"n" * 98, b"p/" + b"n" * 97 + b"/", b"p/manifest.json", EVIL, b"p/-c", b"-p", b"p/*", b"p/c\\n",
    b"p/\\101",
)  # fmt: skip

NUMBERS = (
    b"", b"0", b"5", b"00000000005", b"0000000005 ", b"0000000005 \0", b"          5", b"5          ", b"5\0\0\0\0\0",
    b"\0005", b"-1", b"+5", b"0x5", b"00000000008", b"777777777777", b"7777777 ", b"\x80" + bytes(10) + b"\x05",
    b"\xff" * 12, b"\x80" + b"\xff" * 11, b"\x80" + bytes(6) + b"\x05", b"0000644 ", b"000644 \0", b"000755 \0",
    b"0104755\0", b"0000000\0", b"0000111\0", b"0000400\0", b"00001000000", b"1 2", b"5\x001", b"0000005\n",
)  # fmt: skip

KEYS = (
    b"path", b"size", b"linkpath", b"hdrcharset", b"mtime", b"uid", b"comment", b"PATH", b" path", b"GNU.sparse.name",
    b"GNU.sparse.realsize", b"SCHILY.xattr.user.x", b"LIBARCHIVE.symlinktype", b"",
)  # fmt: skip

VALUES = (*NAMES, b"1", b"0", b"5", b"9663676416", b"1700000000.5", b"1e3", b"BINARY", b"-7", b"p/" + b"long/" * 40)


def harmed(random: Random, items: list[Item | bytes]) -> bytes:
    """Return a tar of `items`, a few of which are in other forms."""
    for _ in range(random.choice((0, 1, 1, 1, 1, 2, 2, 3))):
        random.choice(_HARMS)(random, items)
    end = random.choice(_ENDS) if random.random() < 0.1 else random.choice((bytes(1024), bytes(10240)))
    return archive(*items, end=end)


def zipped(random: Random, tar: bytes) -> bytes:
    """Return a tar as gzip, sometimes in another form."""
    return random.choice(_GZIPS)(tar) if random.random() < 0.1 else gzip.compress(tar, 1, mtime=0)


def _any_item(random: Random, items: list[Item | bytes]) -> tuple[int, Item]:
    places = [(at, item) for at, item in enumerate(items) if isinstance(item, Item)]
    return random.choice(places) if places else (0, GOOD[0])


def _field(random: Random, items: list[Item | bytes]) -> None:
    """Set a field to another value: a meaningful one, or random bytes."""
    at, item = _any_item(random, items)
    name = random.choice([field for field in FIELDS if field != "checksum"])
    start, end = FIELDS[name]
    value = random.choice((random.choice(NUMBERS), random.choice(NAMES), random.randbytes(end - start)))
    if name == "magic":
        value = random.choice((GNU, OLD, b"ustar\0001", b"ustar   ", USTAR))
    items[at : at + 1] = [replace(item, fields={**item.fields, name: value})]


def _byte(random: Random, items: list[Item | bytes]) -> None:
    """Change one byte of a header, and correct the checksum."""
    at, item = _any_item(random, items)
    block = bytearray(bytes(item))
    place = random.choice((*range(148), *range(156, 512)))
    block[place] = random.choice((0, 32, 47, 48, 49, 53, 55, 120, 255, random.randrange(256)))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    items[at : at + 1] = [bytes(block)]


def _extend(random: Random, items: list[Item | bytes]) -> None:
    """Put one or several extended headers before a member, valid or odd."""
    at, item = _any_item(random, items)
    keys = [random.choice((b"path", b"mtime", random.choice(KEYS))) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    fitting = {b"path": item.name, b"size": b"%d" % len(item.content), b"mtime": b"7.5"}
    values = [fitting.get(key, b"1") if random.random() < 0.4 else random.choice(VALUES) for key in keys]
    content = b"".join(record(key, value) for key, value in zip(keys, values, strict=True))
    if random.random() < 0.25:
        content = random.choice((content[:-1], b"0" + content, content + content, content + b"\0", content + b"4 =\n"))
    header = Item(b"././@PaxHeader", random.choice((b"x", b"x", b"x", b"x", b"g", b"X")), content)
    items[at:at] = [header] * random.choice((1, 1, 1, 1, 1, 2, 3))


def _again(random: Random, items: list[Item | bytes]) -> None:
    _, item = _any_item(random, items)
    items.append(replace(item, content=b"other") if random.random() < 0.5 else item)


def _form(random: Random, items: list[Item | bytes]) -> None:
    """Give a member another checksum, fill, name or type."""
    at, item = _any_item(random, items)
    kind = bytes((random.choice(b"\0001234567LKSVMNDAIXgx5"),))
    link = {"link": random.choice((b"/etc/passwd", b"p/a", b"a"))}
    forms = (
        replace(item, checksum=lambda block: b"%07o\0" % sum(block)),
        replace(item, checksum=lambda _block: b" " * 8),
        replace(item, fill=b"x"),
        replace(item, name=random.choice(NAMES)),
        replace(item, kind=kind, fields=item.fields | link),
    )
    items[at : at + 1] = [random.choice(forms)]


_HARMS = (_field, _byte, _extend, _extend, _again, _form, _form)

_ENDS = (
    b"", bytes(512), bytes(1023), bytes(1025), bytes(512) + b"x", bytes(1024) + bytes(Item(EVIL)),
    bytes(1024) + archive(Item(EVIL, content=b"a second archive")),
)  # fmt: skip

_GZIPS: tuple[Callable[[bytes], bytes], ...] = (
    lambda tar: gzip.compress(tar[:512]) + gzip.compress(tar[512:]),
    lambda tar: gzip.compress(tar) + gzip.compress(archive(Item(EVIL))),
    lambda tar: gzip.compress(tar) + b"behind",
    lambda tar: gzip.compress(tar)[:-4],
    lambda tar: gzip.compress(tar)[:-8] + bytes(8),
    lambda tar: tar,
    zlib.compress,
)

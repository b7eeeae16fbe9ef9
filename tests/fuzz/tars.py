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
    """A header and its content.

    Attributes:
        name: The content of the field for the name.
        kind: The type flag.
        content: The content, which is filled up to a block.
        mode: The permissions.
        fields: The fields with other values, by name; the checksum is correct unless it is among them.
        fill: The byte that fills the last block.
        checksum: Returns the field for the checksum of a header.
    """

    name: bytes
    kind: bytes = b"0"
    content: bytes = b""
    mode: int = 0o644
    fields: dict[str, bytes] = field(default_factory=dict)
    fill: bytes = b"\0"
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
    b"path", b"size", b"linkpath", b"hdrcharset", b"mtime", b"atime", b"ctime", b"uid", b"gname", b"comment",
    b"charset",
    b"PATH", b" path", b"path ", b"GNU.sparse.major", b"GNU.sparse.minor", b"GNU.sparse.name", b"GNU.sparse.realsize",
    b"GNU.sparse.map", b"GNU.sparse.size", b"GNU.sparse.numblocks", b"SCHILY.xattr.user.x", b"SCHILY.realsize",
    b"SCHILY.filetype", b"LIBARCHIVE.symlinktype", b"GNU.volume.label", b"GNU.dumpdir", b"RHT.security.selinux", b"",
)  # fmt: skip

VALUES = (
    *NAMES, b"1", b"0", b"5", b"9663676416", b"1700000000.123456789", b"1e3", b"BINARY", b"ISO-IR 10646 2000 UTF-8",
    b"0,5", b"dir", b"99999999999", b"-7", b"x=y", b"p/" + b"long/" * 40 + b"end", b"p/" + "é".encode() * 90,
)  # fmt: skip

SUMS: tuple[Callable[[bytes], bytes], ...] = (
    lambda block: b"%07o\0" % sum(block),
    lambda block: b"%6o\0 " % sum(block),
    lambda block: b"%06o  " % sum(block),
    lambda block: b"%06o \0" % sum(block),
    lambda block: b"%06o\0 " % (sum(block) + 1),
    lambda block: b"%06o\0 " % (sum(byte - 256 if byte > 127 else byte for byte in block) & 0o777777),
    lambda _block: b" " * 8,
    lambda _block: bytes(8),
)


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


def _set(items: list[Item | bytes], at: int, item: Item) -> None:
    items[at : at + 1] = [item]


def _field(random: Random, items: list[Item | bytes]) -> None:
    """Set a field to another value: a meaningful one, or random bytes."""
    at, item = _any_item(random, items)
    name = random.choice([field for field in FIELDS if field != "checksum"])
    start, end = FIELDS[name]
    value = random.choice((random.choice(NUMBERS), random.choice(NAMES), random.randbytes(end - start)))
    if name == "magic":
        value = random.choice((GNU, OLD, b"ustar\x0001", b"ustar   ", b"ustar\0\0\0", b"USTAR\x0000", USTAR))
    elif name == "kind":
        value = bytes((random.randrange(128),))
    _set(items, at, replace(item, fields={**item.fields, name: value}))


def _byte(random: Random, items: list[Item | bytes]) -> None:
    """Change one byte of a header, and correct the checksum."""
    at, item = _any_item(random, items)
    block = bytearray(bytes(item))
    place = random.choice((*range(148), *range(156, 512)))
    block[place] = random.choice((0, 32, 47, 48, 49, 53, 55, 120, 255, random.randrange(256)))
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    items[at : at + 1] = [bytes(block)]


def _name(random: Random, items: list[Item | bytes]) -> None:
    """Set the name, the prefix, and sometimes the form of a header, by which readers take the prefix into the name."""
    at, item = _any_item(random, items)
    fields = {key: value for key, value in item.fields.items() if key != "prefix"}
    if random.random() < 0.5:
        fields["prefix"] = random.choice((b"q", b"p", b"p/", b"p/evil", b"/", b"", b"..", b"p\0x", b"p" * 155))
        fields["magic"] = random.choice((USTAR, GNU, OLD, b"ustar\0\0\0"))
    _set(items, at, replace(item, name=random.choice(NAMES), fields=fields))


# Names in and not in Unicode's form NFC: libarchive composes the characters of a path, other readers do not.
_UNICODE = tuple(
    f"p/{name}".encode()
    for name in (
        "\u00e9", "e\u0301", "\u212b", "\uac00", "\u1100\u1161", "\U0001f600", "\u202ea", "\ufeffa", "\uffff", "\ufb01",
        "a\u0328\u0301", "a\u0301\u0328", "\u0344", "\u2028", "\u0958", "\ue000", "\u00df", "\u0130", "\U000e0001",
    )
)  # fmt: skip


def _good(random: Random, items: list[Item | bytes]) -> None:
    """Add a valid member with a name in another alphabet, or with a valid extended header."""
    if random.random() < 0.3:
        items.append(Item(random.choice(_UNICODE), content=b"of another alphabet"))
        return
    name = random.choice((b"p/" + b"long/" * 40 + b"end", b"p/" + b"long" * 40, b"p/c", b"./p/c", *_UNICODE))
    times = record(b"mtime", b"1700000000.5"), record(b"atime", b"-7"), record(b"ctime", b"1")
    records = record(b"path", name), *random.sample(times, random.randint(0, 3))
    item = Item(random.choice((b"p/?", b"p/a", b"evil/", b"/evil", b"../evil", b"p/x/")), content=b"extended")
    items += [extended(*records), replace(item, mode=random.choice((0o644, 0o755)))]


def _extend(random: Random, items: list[Item | bytes]) -> None:
    """Put one or several extended headers before a member, valid or odd."""
    at, item = _any_item(random, items)
    keys = [random.choice((b"path", b"mtime", random.choice(KEYS))) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    content = b"".join(record(key, _fitting(random, key, item)) for key in keys)
    if random.random() < 0.25:
        content = _damaged(random, content)
    header = Item(b"././@PaxHeader", random.choice((b"x", b"x", b"x", b"x", b"x", b"x", b"g", b"X")), content)
    if random.random() < 0.1:
        header = replace(header, name=random.choice(NAMES), fill=random.choice((b"\0", b"\n", b"1")))
    items[at:at] = [header] * random.choice((1, 1, 1, 1, 1, 2, 3))


def _fitting(random: Random, key: bytes, item: Item) -> bytes:
    if random.random() < 0.4:
        return {b"path": item.name, b"size": b"%d" % len(item.content), b"mtime": b"7.5"}.get(key, b"1")
    return random.choice(VALUES)


def _damaged(random: Random, content: bytes) -> bytes:
    return random.choice(
        (
            content[:-1],
            b"0" + content,
            content + content,
            content.replace(b" ", b"  ", 1),
            b"%d%s" % (random.randrange(200), content.lstrip(b"0123456789")),
            content + random.choice((b"\0", b"\n", b"9" * 600, b"5 a=\n", b"4 =\n", b"3 \n")),
        )
    )


def _long_name(random: Random, items: list[Item | bytes]) -> None:
    at, _ = _any_item(random, items)
    fields = {"magic": random.choice((GNU, USTAR))}
    kind = random.choice((b"L", b"K", b"L", b"N"))
    items[at:at] = [Item(b"././@LongLink", kind, random.choice(NAMES) + b"\0", fields=fields)]


def _sparse(random: Random, items: list[Item | bytes]) -> None:
    at, item = _any_item(random, items)
    if random.random() < 0.5:
        chunk = b"00000000000\0" + b"%011o\0" % len(item.content)
        fields = {"magic": random.choice((GNU, USTAR)), "sparse": chunk, "real size": b"%011o\0" % len(item.content)}
        _set(items, at, replace(item, kind=random.choice((b"S", b"0")), fields=fields))
        return
    name = record(b"GNU.sparse.name", random.choice((EVIL, b"p/c")))
    version = record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.minor", b"0")
    size = record(b"GNU.sparse.realsize", b"%d" % len(item.content))
    _set(items, at, replace(item, content=b"1\n0\n%d\n" % len(item.content) + bytes(500) + item.content))
    items[at:at] = [extended(version, name, size)]


def _again(random: Random, items: list[Item | bytes]) -> None:
    _, item = _any_item(random, items)
    items.append(replace(item, content=b"other") if random.random() < 0.5 else item)


def _between(random: Random, items: list[Item | bytes]) -> None:
    """Put a block that is not a header between two members."""
    at = random.randrange(len(items) + 1)
    items[at:at] = [random.choice((bytes(512), bytes(1024), b"\n" * 512, b"x" * 512, bytes(100), bytes(511) + b"x"))]


def _form(random: Random, items: list[Item | bytes]) -> None:
    """Give a member another checksum, fill or type."""
    at, item = _any_item(random, items)
    link = {"link": random.choice((b"/etc/passwd", b"p/a", b"a"))}
    kind = bytes((random.choice(b"\0001234567LKSVMNDAIXgx5"),))
    forms = (
        replace(item, checksum=random.choice(SUMS)),
        replace(item, name=b"p/\xc3\xa9", checksum=random.choice(SUMS)),
        replace(item, fill=random.choice((b"x", b"\n"))),
        replace(item, kind=kind),
        replace(item, kind=kind, fields=item.fields | link),
    )
    _set(items, at, random.choice(forms))


def _folder(random: Random, items: list[Item | bytes]) -> None:
    at = random.randrange(len(items) + 1)
    name = random.choice((b"p/deep/", b"p/new", b"p/new/", b"./", b"p/a/", b"p/x/y/z/", random.choice(NAMES)))
    content = b"" if random.random() < 0.8 else bytes(Item(EVIL, content=b"inside a folder"))
    items[at:at] = [Item(name, b"5", content, mode=random.choice((0o755, 0o755, 0o700, 0o555, 0, 0o1777)))]


_HARMS = (
    _good, _good, _field, _field, _byte, _byte, _name, _name, _extend, _extend, _extend, _long_name, _sparse, _again,
    _between, _form, _form, _form, _folder,
)  # fmt: skip

_ENDS = (
    b"", bytes(512), bytes(1023), bytes(1025), bytes(1536), bytes(512) + b"x", bytes(1024) + bytes(Item(EVIL)),
    bytes(1024) + archive(Item(EVIL, content=b"a second archive")), bytes(512) + archive(Item(EVIL)),
)  # fmt: skip


def _with_header(tar: bytes, flags: int, extra: bytes) -> bytes:
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(tar) + deflate.flush()
    trailer = zlib.crc32(tar).to_bytes(4, "little") + len(tar).to_bytes(4, "little")
    return b"\x1f\x8b\x08" + bytes((flags,)) + bytes(6) + extra + body + trailer


_GZIPS: tuple[Callable[[bytes], bytes], ...] = (
    lambda tar: gzip.compress(tar[:512]) + gzip.compress(tar[512:]),
    lambda tar: gzip.compress(tar) + gzip.compress(archive(Item(EVIL))),
    lambda tar: gzip.compress(tar) + b"behind",
    lambda tar: gzip.compress(tar) + bytes(100),
    lambda tar: gzip.compress(tar)[:-4],
    lambda tar: gzip.compress(tar)[:-8] + bytes(8),
    lambda tar: _with_header(tar, 8, b"name.tar\0"),
    lambda tar: _with_header(tar, 4, b"\x02\0ab"),
    lambda tar: _with_header(tar, 1, b""),
    lambda tar: _with_header(tar, 0xE0, b""),
    lambda tar: tar,
    zlib.compress,
)

"""The headers of archives: made as Python's tarfile makes them, and refused in forms that not all tars read alike."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, VerificationError
from packager.package import archive, tarheader
from packager.package.tree import Entry, Tree
from tests import tools
from tests.fuzz.tars import GNU, Item, extended, record
from tests.fuzz.tars import archive as archive_of

if TYPE_CHECKING:
    from pathlib import Path

LARGE = 9 << 30

FORMS = [
    ([Item(b"a", fields={"magic": GNU, "prefix": b"p"})], "a has a header of the GNU tar format, expected ustar"),
    (
        [extended(record(b"path", b"p/a")), extended(record(b"path", b"p/b")), Item(b"p/c")],
        "p/a has two extended headers in a row",
    ),
    (
        [extended(record(b"path", b"p/a"), kind=b"g"), Item(b"p/b")],
        "././@PaxHeader is a global header, which not every tar can read",
    ),
    (
        [Item(b"././@LongLink", b"L", b"p/long\0"), Item(b"p/b")],
        "././@LongLink is a GNU header for a long name, which not every tar can read",
    ),
    ([Item(b"p/a", b"S")], "p/a is a sparse file, but a package contains only plain files"),
    (
        [extended(record(b"GNU.sparse.name", b"p/evil")), Item(b"p/a")],
        "././@PaxHeader: the key GNU.sparse.name is not one of path, size, mtime, atime, ctime",
    ),
    ([Item(b"p/a", b"\0")], "p/a is a file of the old tar format (v7), but a package contains only plain files"),
    ([Item(b"p/a/")], "p/a/ is a file, but its name ends like a folder's"),
    ([Item(b"p/a\0b")], "p/a: unexpected data after the end of the name in its header"),
    ([Item(b"p/a", fields={"link": b"/etc/passwd"})], "p/a: the field for the link in its header is not empty"),
    ([Item(b"p/a", fields={"uname": b"\x1b[2J"})], "p/a: the owner's name in its header contains control characters"),
    (
        [Item(b"p/a", content=b"12345", fields={"size": b"\x80" + bytes(10) + b"\x05"})],
        r"p/a: the size in its header is '\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05', expected octal digits",
    ),
    ([extended(record(b"size", b"5")), Item(b"p/a")], "././@PaxHeader: the size '5' must be in the header itself"),
    (
        [extended(record(b"size", b"%d" % LARGE)), Item(b"p/a", content=b"12345")],
        "p/a has a size in its extended header and another one in its header",
    ),
    ([extended(record(b"path", b"p/a"), record(b"path", b"p/b")), Item(b"p/c")], "././@PaxHeader: duplicate key path"),
    ([extended(b"99 path=p/a\n"), Item(b"p/c")], "././@PaxHeader: expected LENGTH KEY=VALUE, found '99 path=p/a\\n'"),
    (
        [extended(record(b"path", b"p/a\0b")), Item(b"p/c")],
        r"././@PaxHeader: the path 'p/a\x00b' is empty or contains a NUL",
    ),
    ([Item(b"p/a", content=b"1", fill=b"x")], "unexpected data after the end of p/a"),
    (
        [Item(b"p/a"), bytes(512), Item(b"p/b")],
        "there is an empty block in the middle, which some readers take as the end",
    ),
    ([Item(b"p/a", mode=0o666)], "p/a has the mode 0666: everyone may write to it"),
    ([Item(b"p/", b"5", mode=0o600)], "p/ has the mode 0600: its owner cannot use the folder"),
]


@pytest.mark.parametrize(("items", "message"), FORMS)
def test_ambiguous_tar_is_refused(items: list[Item | bytes], message: str, tmp_path: Path) -> None:
    assert refused(gzip.compress(archive_of(*items)), tmp_path) == message


def test_second_archive_is_refused(tmp_path: Path) -> None:
    content = archive_of(Item(b"p/a")) + archive_of(Item(b"p/b"))
    assert refused(gzip.compress(content), tmp_path) == "unexpected data after the end of the archive"


GZIPS = {
    "two members": (
        gzip.compress(archive_of(Item(b"p/a"))[:512]) + gzip.compress(bytes(1024)),
        "the archive ends too early",
    ),
    "garbage behind it": (
        gzip.compress(archive_of(Item(b"p/a"))) + b"\0",
        "unexpected data after the end of the gzip stream",
    ),
}


@pytest.mark.parametrize("form", GZIPS)
def test_ambiguous_gzip_is_refused(form: str, tmp_path: Path) -> None:
    content, message = GZIPS[form]
    assert refused(content, tmp_path) == message


def test_gzip_header_with_more_than_a_name_is_refused(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(archive_of(Item(b"p/a"))))
    content[3] = 4
    path = tmp_path / "odd.tar.gz"
    path.write_bytes(content)
    with pytest.raises(VerificationError) as caught:
        archive.extract(path, tmp_path)
    assert str(caught.value) == f"{path} is not a gzip archive, or is damaged: it does not start with a gzip header"


@pytest.mark.parametrize("checksum", [b"        ", b"%07o\0"])
def test_wrong_or_unusual_checksum_is_refused(checksum: bytes, tmp_path: Path) -> None:
    item = Item(b"p/a", checksum=lambda block: checksum % sum(block) if b"%" in checksum else checksum)
    path = tmp_path / "odd.tar.gz"
    path.write_bytes(gzip.compress(archive_of(item)))
    with pytest.raises(VerificationError, match="is not a tar archive, or is damaged: the header of p/a is damaged"):
        archive.extract(path, tmp_path)


def refused(content: bytes, folder: Path) -> str:
    path = folder / "odd.tar.gz"
    path.write_bytes(content)
    with pytest.raises(VerificationError) as caught:
        archive.extract(path, folder)
    return str(caught.value).removeprefix(f"{path}: ")


def test_headers_equal_those_of_tarfile() -> None:
    made = random.Random(1)
    for _ in range(2_000):
        name = "".join(made.choices("abc/-.", k=made.randint(1, 200))).strip("/") or "x"
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = (
            made.randrange(8**11),
            0o755,
            made.choice((0, made.randrange(8**11), 10**11 - 1)),
        )
        assert tarheader.of_file(name, info.size, info.mode, info.mtime) == info.tobuf(tarfile.PAX_FORMAT)


@pytest.mark.thorough
@pytest.mark.parametrize("reader", ["tar", "bsdtar", "busybox tar"])
def test_every_tar_reads_a_size_above_8_gib(reader: str, tmp_path: Path) -> None:
    """busybox reads no size in an extended header, and would take the content for headers."""
    path = tmp_path / "large.tar"
    path.write_bytes(tarheader.of_file("p/large", LARGE, 0o644, 0) + bytes(10_240))
    done = subprocess.run([*tools.command(reader), "-tvf", path], capture_output=True, text=True, check=False)
    assert f" {LARGE} " in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("reader", ["tar -xzf", "bsdtar -xzf", "busybox tar -xzf"])
def test_names_are_unpacked_alike_in_every_charset(reader: str, tmp_path: Path) -> None:
    """GNU tar removes U+E0001 of an extended header where it converts names, and would overwrite another file."""
    charset = "C"
    names = ["a", "a\U000e0001", "ä", "/".join(["é" * 40] * 2)]
    path = tmp_path / "p.tar.gz"
    tree = Tree("p", tuple(Entry(name, name.encode(), len(name.encode())) for name in names), {})
    with path.open("wb") as stream:
        archive.write(tree, stream)
    env = {**os.environ, "LC_ALL": charset}
    subprocess.run([*tools.command(reader), path], cwd=tmp_path, env=env, check=True)
    for name in names:
        assert (tmp_path / "p" / name).read_text() == name


def test_name_that_fits_no_header_is_refused(tmp_path: Path) -> None:
    name = "é" * 60
    with pytest.raises(ToolError) as refused, (tmp_path / "p.tar.gz").open("wb") as stream:
        archive.write(Tree("p", (Entry(name, b"", 0),), {}), stream)
    assert str(refused.value) == f"p/{name}: the path is too long for one that is not ASCII"
    assert refused.value.hint == "rename it"

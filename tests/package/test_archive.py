"""Archives are refused in forms that not all tars read alike."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, VerificationError
from packager.package import archive
from packager.package.tree import Entry, Tree
from tests import tools
from tests.fuzz.tars import GNU, Item, extended, record
from tests.fuzz.tars import archive as archive_of

if TYPE_CHECKING:
    from pathlib import Path


LARGE = 9 << 30
OTHER = "was packed by another program than mlpack"

FORMS: dict[str, list[Item | bytes]] = {
    "a folder": [Item(b"p/", b"5", mode=0o755)],
    "the GNU format": [Item(b"p/a", fields={"magic": GNU, "prefix": b"p"})],
    "an unknown key": [extended(record(b"GNU.sparse.name", b"p/evil")), Item(b"p/a")],
    "a path twice": [extended(record(b"path", b"p/a"), record(b"path", b"p/b")), Item(b"p/c")],
    "a path with a NUL": [extended(record(b"path", b"p/a") + b"\0"), Item(b"p/c")],
    "a size in two fields": [extended(record(b"size", b"%d" % LARGE)), Item(b"p/a", content=b"12345")],
    "a size in base 256": [Item(b"p/a", content=b"12345", fields={"size": b"\x80" + bytes(10) + b"\x05"})],
    "data after the name": [Item(b"p/a\0b")],
    "a link's target": [Item(b"p/a", fields={"link": b"/etc/passwd"})],
    "an owner": [Item(b"p/a", fields={"uname": b"me"})],
    "a mode that a umask changes": [Item(b"p/a", mode=0o666)],
    "another form of the checksum": [Item(b"p/a", checksum=lambda block: b"%07o\0" % sum(block))],
}
"""Archives with a header that another program writes, or that not all programs read alike."""


def test_header_of_another_form_is_refused(tmp_path: Path) -> None:
    for name, items in FORMS.items():
        message = refused(gzip.compress(archive_of(*items)), tmp_path / name)
        assert re.search("by another program than mlpack|is not a plain file|is damaged: unexpected end", message), name


OTHERS: list[tuple[list[Item | bytes], str]] = [
    ([Item(b"././@LongLink", b"L", b"p/long\0"), Item(b"p/b")], "././@LongLink is not a plain file"),
    ([extended(record(b"path", b"p/a"), kind=b"g"), Item(b"p/b")], "././@PaxHeader is not a plain file"),
    ([extended(record(b"path", b"p/a")), extended(record(b"path", b"p/b")), Item(b"p/c")], OTHER),
    ([Item(b"p/a", content=b"1", fill=b"x")], OTHER),
    ([Item(b"p/a"), bytes(512), Item(b"p/b")], OTHER),
    ([Item(b"p/a", fields={"size": b"\xff" * 12})], "a header has -1 bytes"),
    ([Item(b"p/a", checksum=lambda _block: b" " * 8)], "is not a package, or is damaged: bad checksum"),
]


def test_ambiguous_tar_is_refused(tmp_path: Path) -> None:
    for number, (items, message) in enumerate(OTHERS):
        assert message in refused(gzip.compress(archive_of(*items)), tmp_path / f"{number}")


def test_tar_with_another_end_is_refused(tmp_path: Path) -> None:
    content = archive_of(Item(b"p/a"))
    for number, end in enumerate((b"", bytes(9216), bytes(8703) + b"x", bytes(8704) + content)):
        assert OTHER in refused(gzip.compress(content + end), tmp_path / f"{number}")


TAR = archive_of(Item(b"p/a"), end=bytes(9728))
GZIPS = {
    "two members": (gzip.compress(TAR[:512]) + gzip.compress(TAR[512:]), "unexpected data after the end of the gzip"),
    "garbage": (gzip.compress(TAR) + b"\0", "unexpected data after the end of the gzip stream"),
}


def test_ambiguous_gzip_is_refused(tmp_path: Path) -> None:
    for form, (content, message) in GZIPS.items():
        assert message in refused(content, tmp_path / form)


def refused(content: bytes, folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "odd.tar.gz"
    path.write_bytes(content)
    with pytest.raises(VerificationError) as caught:
        archive.extract(path, folder)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.thorough
@pytest.mark.parametrize("reader", ["tar", "bsdtar"])
def test_tar_reads_a_size_above_8_gib(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "large.tar"
    path.write_bytes(archive.header("p/large", LARGE) + bytes(10_240))
    done = subprocess.run([*tools.command(reader), "-tvf", path], capture_output=True, text=True, check=False)
    assert f" {LARGE} " in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("reader", ["tar -xzf", "bsdtar -xzf", "busybox tar -xzf"])
def test_names_are_unpacked_alike_in_the_charset_c(reader: str, tmp_path: Path) -> None:
    """GNU tar removes U+E0001 of an extended header where it converts names, and would overwrite another file."""
    names = ["a", "a\U000e0001", "ä", "/".join(["é" * 40] * 2)]
    path = tmp_path / "p.tar.gz"
    tree = Tree("p", tuple(Entry(name, name.encode(), len(name.encode())) for name in names), {})
    with path.open("wb") as stream:
        archive.write(tree, stream)
    env = {**os.environ, "LC_ALL": "C"}
    subprocess.run([*tools.command(reader), path], cwd=tmp_path, env=env, check=True)
    for name in names:
        assert (tmp_path / "p" / name).read_text() == name


def test_name_that_fits_no_header_is_refused(tmp_path: Path) -> None:
    name = "é" * 60
    with pytest.raises(ToolError) as refused, (tmp_path / "p.tar.gz").open("wb") as stream:
        archive.write(Tree("p", (Entry(name, b"", 0),), {}), stream)
    assert str(refused.value) == f"p/{name}: the path is too long for one that is not ASCII"
    assert refused.value.hint == "rename it"

"""Tests of hostile archives and folders: refused with one line, with bounded memory, and no file written outside."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import resource
import stat
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UsageError, VerificationError
from packager.base.paths import Limits
from packager.package import archive, tree
from packager.package.opened import opened
from tests.fuzz.tars import Item, extended, record
from tests.fuzz.tars import archive as archive_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Member = tarfile.TarInfo | tuple[tarfile.TarInfo, bytes]


def _file(name: str, content: bytes = b"", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    return info, content


def _of_type(kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo("p/harmless")
    info.type, info.linkname = kind, target
    return info


def _tar(*members: Member, form: int = tarfile.PAX_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form, errors="surrogateescape") as tar:
        for member in members:
            info, content = member if isinstance(member, tuple) else (member, b"")
            tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def _named(*names: str) -> bytes:
    return _tar(*map(_file, names), form=tarfile.USTAR_FORMAT)


def _refused(path: Path, folder: Path, limits: Limits | None = None) -> str:
    """Unpack the archive `path` below `folder`, and return the message of the refusal without the path."""
    inside = folder / "inside"
    inside.mkdir(parents=True)
    with pytest.raises(VerificationError) as caught:
        archive.extract(path, inside, limits or Limits())
    assert sorted(entry.name for entry in folder.iterdir()) == ["inside"], "something was written outside"
    assert not any(entry.is_symlink() for entry in inside.rglob("*"))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    return message.removeprefix(str(path))


ARCHIVES = {
    "a name that leads out": (gzip.compress(_tar(_file("p/../../evil"))), "leads out of the package"),
    "an absolute name": (gzip.compress(_tar(_file("/tmp/evil"))), "the path is absolute"),
    "a link": (gzip.compress(_tar(_of_type(tarfile.SYMTYPE, "../../evil"))), "is not a plain file"),
    "a hard link": (gzip.compress(_tar(_of_type(tarfile.LNKTYPE, "/etc/passwd"))), "is not a plain file"),
    "a pipe": (gzip.compress(_tar(_of_type(tarfile.FIFOTYPE))), "is not a plain file"),
    "a device": (gzip.compress(_tar(_of_type(tarfile.CHRTYPE))), "is not a plain file"),
    "a sparse file": (gzip.compress(_tar(_of_type(tarfile.GNUTYPE_SPARSE))), "is not a plain file"),
    "a mode of another user": (gzip.compress(_tar(_file("p/suid", b"", 0o4755))), "packed by another program"),
    "a control character": (gzip.compress(_tar(_file("p/\x1b]0;evil\x07"))), "control characters"),
    "a name twice": (gzip.compress(_tar(_file("p/a", b"1"), _file("p/a", b"2"))), "p/a occurs twice"),
    "names that differ by case": (gzip.compress(_tar(_file("p/A"), _file("p/a"))), "where case is ignored"),
    "a name that is not UTF-8": (gzip.compress(archive_of(Item(b"p/\xff"))), "the name is not UTF-8"),
    "a file that git reads": (gzip.compress(_tar(_file("p/.git/config"))), ".git"),
    "a bomb": (gzip.compress(_tar(_file("p/zeros", bytes(24 << 20))), 9), "unpacks to more than 200 times its size"),
    "a huge extended header": (
        gzip.compress(archive_of(Item(b"p/x", b"x", b"9" * (1 << 20)))),
        "a header has 1,048,576 bytes",
    ),
    "a second gzip stream": (gzip.compress(_tar(_file("p/a"))) + gzip.compress(_tar(_file("p/b"))), "after the end"),
    "half of an archive": (gzip.compress(_tar(_file("p/a", bytes(range(256)) * 40)))[:-40], "ends too early"),
    "no archive": (b"#!/bin/sh\n", "is not a package, or is damaged"),
    "no package": (gzip.compress(_tar(_file("p/a"))), "contains no manifest.json"),
}
"""Archives that no command opens, each with a part of the message."""


_A = _file("p/a", b"a" * 3000)

VARIANTS = [
    (_tar(_file("p/a/../../../evil")), "leads out of the package"),
    (_tar(_file("//evil")), "the path is absolute"),
    (_tar(_file("p/new\nline")), "control characters"),
    (_tar(_file("p/" + "a" * 300)), "too long or too deep"),
    (_tar(_file(".")), "a file has no name"),
    (_named("p/./a"), "was packed by another program"),
    (_named("p/Scripts/a", "p/scripts/b"), "the same name where case is ignored"),
    (_named("p/\u00e9", "p/e\u0301"), "the same name where case is ignored"),
    (_named("p/train.py", "p/train\u200b.py"), "the name contains invisible characters"),
    (_named("p/a", "p/a/b"), "is both a file and a folder"),
    (
        _named("p/e\u0301"),
        ": 'p/e\\u0301': the name is not in Unicode form NFC, to which some readers convert it",
    ),
    (_tar(_A)[: 512 + 1000], "is damaged: unexpected end"),
    (_tar(_A) + _tar(_file("p/late")), "packed by another program"),
    (
        archive.header("p/x", 1 << 50),
        ": the files are larger than 68,719,476,736 bytes in total",
    ),
    # Python 3.11's reader needs quadratic time for such a header (CVE-2024-6232).
    (archive_of(Item(b"p/x", b"x", b"1" * 4096), Item(b"p/x")), "a header has 4,096 bytes"),
    (archive_of(*[extended(record(b"path", b"p/x"))] * 20_000), "is not a package, or is damaged"),
]
"""Tars that are refused, each with a part of the message."""


def test_extract_refuses_hostile_archives_and_writes_nothing_outside(tmp_path: Path) -> None:
    cases = [case for name, case in ARCHIVES.items() if name not in ("no package", "a file that git reads")]
    cases += [(gzip.compress(tar), reason) for tar, reason in VARIANTS]
    cases += [(b"", ""), (b"\x1f\x8b", "")]
    path = tmp_path / "hostile.tar.gz"
    for number, (content, reason) in enumerate(cases):
        path.write_bytes(content)
        assert reason in _refused(path, tmp_path / f"work{number}"), reason


def test_extract_refuses_archive_cut_at_any_byte(tmp_path: Path) -> None:
    whole = gzip.compress(_tar(_file("p/a", b"a" * 3000), _file("p/b", b"b" * 3000)), mtime=0)
    path = tmp_path / "cut.tar.gz"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        message = _refused(path, tmp_path / f"work{length}")
        assert re.search("ends too early|is damaged", message), message


BOMBS = [
    (lambda: _tar(_file("p/zeros", bytes(64 << 20))), Limits(), "unpacks to more than 200 times its size"),
    (
        lambda: _tar(_file("p/a", bytes(5000)), _file("p/b", bytes(5000))),
        Limits(size=9_999),
        "larger than 9,999 bytes in total",
    ),
    (lambda: _tar(*(_file(f"p/{index}") for index in range(50))), Limits(files=49), "more than 49 files and folders"),
]


@pytest.mark.parametrize(("content", "limits", "reason"), BOMBS, ids=[case[2] for case in BOMBS])
def test_extract_refuses_bomb(content: Callable[[], bytes], limits: Limits, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(content(), 9))
    assert reason in _refused(path, tmp_path / "work", limits)


def test_extract_counts_folders_implied_by_paths(tmp_path: Path) -> None:
    """An archive of 33 KB once created 56,761 folders."""
    names = ["/".join(["p", *(f"{file}" for _ in range(60)), "x"]) for file in range(900)]
    path = tmp_path / "hostile.tar.gz"
    path.write_bytes(gzip.compress(_tar(*(_file(name) for name in names)), 9))
    assert _refused(path, tmp_path / "work", Limits(files=1000)) == ": there are more than 1,000 files and folders"
    assert sum(1 for _ in (tmp_path / "work").rglob("*")) <= 1002


@pytest.mark.thorough
def test_extract_uses_bounded_memory(tmp_path: Path) -> None:
    """256 MiB of zeros are unpacked with less than 64 MiB of additional memory."""
    info = tarfile.TarInfo("p/zeros")
    info.size = 256 << 20
    path = tmp_path / "large.tar.gz"
    with gzip.open(path, "wb", 1) as stream:
        stream.write(info.tobuf(tarfile.PAX_FORMAT))
        for _ in range(256):
            stream.write(bytes(1 << 20))
        stream.write(bytes(5632))
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from packager.package import archive; from packager.package.path_checks import Limits\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "archive.extract(Path(sys.argv[1]), Path(sys.argv[2]), Limits(ratio=2000))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program, path, tmp_path / "out"], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 64 << 10, "KiB"
    assert (tmp_path / "out/p/zeros").stat().st_size == 256 << 20


def _link(folder: Path) -> None:
    (folder / "quickstart/scripts/data").symlink_to("/etc")


def _link_to_root(folder: Path) -> None:
    (folder / "manifest.json").rename(folder.parent / "elsewhere.json")
    (folder / "manifest.json").symlink_to(folder.parent / "elsewhere.json")


def _device(folder: Path) -> None:
    # The device 0, 0 is the only one that Linux lets an unprivileged user create.
    os.mknod(folder / "device", stat.S_IFCHR, os.makedev(0, 0))


def _case(folder: Path) -> None:
    (folder / "readme.MD").write_bytes(b"")


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (_link, "quickstart/scripts/data is a link"),
        (_link_to_root, "is not a plain file"),
        (_device, "device is a device, a pipe or a socket, not a plain file"),
        (_case, "the same name where case is ignored"),
    ],
)
def test_tree_refuses_folder_with_irregular_file(harm: Callable[[Path], None], reason: str, package: Path) -> None:
    harm(package)
    with pytest.raises(VerificationError, match=re.escape(reason)), opened(package) as opened_package:
        tree.read(opened_package.folder)


def test_tree_refuses_folder_beyond_limits(package: Path) -> None:
    with pytest.raises(VerificationError, match="more than 5 files"):
        tree.read(package, Limits(files=5))
    with pytest.raises(VerificationError, match="larger than 100 bytes"):
        tree.read(package, Limits(size=100))


def _inventory(path: str = "a", mode: str = "0644", digest: str = "0" * 64, **values: object) -> bytes:
    files = {path: {"mode": mode, "sha256": digest}}
    return json.dumps({"manifest": 1, "package": "x", "files": files, "editable": {}, **values}).encode()


SEQUENCES: list[object] = ["train", [1], ["../x"], ["a" * 64], [[]], None]
INVENTORIES = [
    (b"", "Expecting value"),
    (b"[]", "Expected `object`"),
    (b"{}", "expected version 1, found None"),
    (_inventory(manifest=True), "Expected `int`"),
    (_inventory(manifest=2), "expected version 1, found 2"),
    (b'{"manifest": 1}', "missing required field `package`"),
    (_inventory(package="../x"), "at `$.package`"),
    (_inventory(package="x\n"), "at `$.package`"),
    (_inventory(editable={"b": ["x"]}), "expected lists of lines, of files that have a digest, at 'editable'"),
    (_inventory("../a"), "leads out of the package"),
    (_inventory("a/./b"), "is not a plain path"),
    (_inventory("\ud800"), "not UTF-8"),
    (_inventory(files={"a": 1}), "at `$.files[...]`"),
    (_inventory(mode="4755"), "at `$.files[...].mode`"),
    (_inventory(digest="0" * 63), "at `$.files[...].sha256`"),
    (_inventory()[:-1] + b', "\\ud800": 1}', "is not the inventory of a package"),
    *((_inventory(sequence=value), "at `$.sequence") for value in SEQUENCES),
    (_inventory(sequence=["a", "a"]), "expected different names of overlays at 'sequence'"),
    (_inventory(workspace="A b"), "expected the name of a claim"),
    (b"[" * 100_000, "is not the inventory of a package: "),
    (b"9" * 5000, "is not the inventory of a package: "),
    (b" " * ((16 << 20) + 1), "manifest.json is larger than 16,384 KiB"),
]


def test_opened_refuses_invalid_inventory(tmp_path: Path) -> None:
    for content, reason in INVENTORIES:
        (tmp_path / "manifest.json").write_bytes(content)
        with pytest.raises(VerificationError, match=re.escape(reason)) as caught, opened(tmp_path):
            pass
        assert "\n" not in str(caught.value)


def test_opened_refuses_path_that_is_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("nothing", "pipe", "/dev/null"):
        with pytest.raises(UsageError), opened(tmp_path / name):
            pass


def test_opened_reports_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "large.tar.gz"
    path.write_bytes(gzip.compress(_tar(_file("p/a", os.urandom(4 << 20)))))
    program = (
        "import sys; from pathlib import Path\n"
        "from packager.base.errors import ToolError; from packager.package.opened import opened\n"
        "try:\n    opened(Path(sys.argv[1])).__enter__()\nexcept ToolError as error:\n    print(error)"
    )

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=True, preexec_fn=little_room
    )
    assert done.stdout == f"{path} cannot be unpacked: file too large\n"

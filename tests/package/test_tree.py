"""A package as files: written, sealed, archived, and read back as it was."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import ToolError, VerificationError
from packager.base.paths import Limits
from packager.package import archive, tree
from packager.package.tree import Entry, Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ABOUT = {"manifest": 1, "package": "demo", "spec": {"name": "é"}}


@pytest.fixture
def package(tmp_path: Path) -> Tree:
    large = tmp_path / "large"
    large.write_bytes(bytes(range(256)) * 20_000)
    entries = (
        Entry("a/b.sh", b"#!/bin/sh\n", 10, executable=True),
        Entry("z/" + "long/" * 40 + "large", large, large.stat().st_size),
        Entry("ä", b"text", 4),
    )
    return Tree("demo", entries, ABOUT)


def test_inventory_contains_digest_and_mode_of_every_file(package: Tree, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    sealed = tree.write(package, folder)
    inventory = json.loads((folder / "manifest.json").read_bytes())
    assert {key: inventory[key] for key in ABOUT} == ABOUT
    assert list(inventory["files"]) == [entry.path for entry in package.entries]
    for path, seal in inventory["files"].items():
        assert seal["sha256"] == hashlib.sha256((folder / path).read_bytes()).hexdigest()
        assert seal["mode"] == f"{(folder / path).stat().st_mode & 0o777:04o}"
    assert tree.digest(sealed) == f"sha256:{hashlib.sha256((folder / 'manifest.json').read_bytes()).hexdigest()}"


def test_folder_and_archive_contain_the_same_package(package: Tree, tmp_path: Path) -> None:
    folder, unpacked = tmp_path / "out", tmp_path / "unpacked"
    folder.mkdir()
    unpacked.mkdir()
    with (tmp_path / "out.tar.gz").open("wb") as stream:
        from_archive = archive.write(package, stream)
    assert from_archive == tree.write(package, folder)
    archive.extract(tmp_path / "out.tar.gz", unpacked)
    for root in (folder, unpacked / "demo"):
        back = tree.read(root)
        assert (back.name, back.about) == ("demo", ABOUT)
        assert [(entry.path, entry.mode, entry.size) for entry in back.entries] == [
            (entry.path, entry.mode, entry.size) for entry in package.entries
        ]
        assert [b"".join(tree.chunks(entry)) for entry in back.entries] == [
            b"".join(tree.chunks(entry)) for entry in package.entries
        ]


def test_archive_contains_no_user_group_or_time(package: Tree, tmp_path: Path) -> None:
    path = tmp_path / "out.tar.gz"
    with path.open("wb") as stream:
        archive.write(package, stream, mtime=7)
    assert path.read_bytes()[:8] == b"\x1f\x8b\x08\0\0\0\0\0"  # no name, no time
    with tarfile.open(path) as opened:
        members = opened.getmembers()
    assert [member.name for member in members] == [
        *(f"demo/{entry.path}" for entry in package.entries),
        "demo/manifest.json",
    ]
    owners = {(member.uid, member.gid, member.uname, member.gname, member.mtime) for member in members}
    assert owners == {(0, 0, "", "", 7)}
    assert {member.mode for member in members} == {0o644, 0o755}


@pytest.mark.parametrize("content", [b"12", b"1234"])
def test_archive_refuses_file_changed_while_packing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    package = Tree("demo", (Entry("x", path, 3),), ABOUT)
    with (
        pytest.raises(ToolError, match="x changed while it was packed"),
        (tmp_path / "out").open("wb") as stream,
    ):
        archive.write(package, stream)


def archived(package: Tree, out: Path) -> None:
    with out.open("wb") as stream:
        archive.write(package, stream)


def unpacked(package: Tree, out: Path) -> None:
    out.mkdir()
    tree.write(package, out)


@pytest.mark.parametrize("write", [archived, unpacked])
def test_unreadable_file_is_named_in_the_error(tmp_path: Path, write: Callable[[Tree, Path], None]) -> None:
    package = Tree("demo", (Entry("x", tmp_path, 3),), ABOUT)
    with pytest.raises(ToolError) as refused:
        write(package, tmp_path / "out")
    assert str(refused.value) == f"{tmp_path} cannot be read: is a directory"
    assert refused.value.exit_code == 6


def test_walk_stops_at_the_limit_of_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    looked_at: list[os.DirEntry[str]] = []

    @contextmanager
    def scandir(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
        def noted() -> Iterator[os.DirEntry[str]]:
            for entry in entries:
                looked_at.append(entry)
                yield entry

        with scanned(folder) as entries:
            yield noted()

    scanned = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(VerificationError, match="there are more than 5 files and folders"):
        tree.walk(tmp_path, Limits(files=5))
    assert len(looked_at) == 6

"""Tests of patches: git and GNU patch apply them."""

from __future__ import annotations

import subprocess
from random import Random
from typing import TYPE_CHECKING

import pytest

from packager.configure.diff import Version, patch

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a b/c d.env", "ümlaut.yaml", 'quo"te.yaml', "back\\slash.yaml")


def write(folder: Path, name: str, version: Version | None) -> None:
    if version is not None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(version.content)
        path.chmod(int(version.mode, 8))


def read(folder: Path, name: str) -> Version | None:
    path = folder / name
    return Version(path.read_bytes(), f"{path.stat().st_mode & 0o777:04o}") if path.exists() else None


@pytest.mark.parametrize("name", NAMES)
def test_patch_turns_one_version_into_the_other(name: str, tmp_path: Path) -> None:
    random = Random(name)
    for number in range(8):
        before = content(random) if number else None
        now = content(random) if number != 1 else None
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder, name, before)
        (tmp_path / "patch").write_bytes(patch(name, before, now))
        subprocess.run(["git", "apply", tmp_path / "patch"], cwd=folder, check=True)
        assert read(folder, name) == now


def content(random: Random) -> Version:
    rows = [random.choice(["a", "b", "c\r", "--- x", "@@ -1 +1 @@", "", "\\ ", "\udcff"]) for _ in range(20)]
    return Version("\n".join(rows).encode(errors="surrogateescape") + b"\n" * random.randrange(2) + b"end", "0755")


def test_patch_of_equal_versions_is_empty_and_of_a_mode_has_no_hunks() -> None:
    assert patch("a", Version(b"x\n"), Version(b"x\n")) == b""
    assert patch("a", Version(b"x\n"), Version(b"x\n", "0755")) == (
        b"diff --git a/a b/a\nold mode 100644\nnew mode 100755\n"
    )

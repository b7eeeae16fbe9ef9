"""GNU tar, bsdtar and busybox unpack each archive that our reader accepts to the same files."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.differential import READERS, accepted, compare, disagreements
from tests.fuzz.tars import GOOD, archive

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.thorough


def test_readers_agree_on_accepted_archives(tmp_path: Path) -> None:
    count, differing = compare("every run", range(300), tmp_path)
    assert differing == {}
    assert 40 < count < 200, "an archive must have a chance to be accepted, and to be refused"


def test_disagreements_reports_changed_files(tmp_path: Path) -> None:
    path, ours = tmp_path / "archive.tar.gz", tmp_path / "ours"
    path.write_bytes(gzip.compress(archive(*GOOD)))
    assert accepted(path, ours)
    assert disagreements(path, ours, tmp_path) == {}
    (ours / "p/a").write_bytes(b"other")
    (ours / "p/run.sh").chmod(0o644)
    (ours / "p/more").mkdir()
    assert disagreements(path, ours, tmp_path).keys() == READERS.keys()

"""GNU tar, bsdtar and busybox unpack each archive that our reader accepts to the same files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz.differential import compare

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.thorough


def test_readers_agree_on_accepted_archives(tmp_path: Path) -> None:
    count, differing = compare("every run", range(300), tmp_path)
    assert differing == {}
    assert 40 < count < 200, "an archive must have a chance to be accepted, and to be refused"

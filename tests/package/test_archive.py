"""A payload that is large enough for isal: the same tar with it and without, for every reader of gzip."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import sys
from typing import TYPE_CHECKING

import pytest

from packager.package import archive
from packager.package.tree import Entry, Tree

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def payload(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file above the size from which isal is asked, half of it random."""
    path = tmp_path_factory.mktemp("payload") / "weights.bin"
    path.write_bytes(random.Random(1).randbytes(17 << 20) + b"weights " * (2 << 20))
    return path


def packed(payload: Path) -> bytes:
    tree = Tree("large", (Entry("assets/weights.bin", payload, payload.stat().st_size),), {})
    assert archive.is_large(tree)
    stream = io.BytesIO()
    archive.write(tree, stream)
    return stream.getvalue()


def digest(content: bytes) -> str:
    """Return the digest of bytes, for assertions: pytest would print the bytes themselves for minutes."""
    return hashlib.sha256(content).hexdigest()


@pytest.mark.thorough
def test_isal_and_zlib_compress_the_same_tar(payload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal")
    fast = packed(payload)
    monkeypatch.setitem(sys.modules, "isal", None)
    assert not archive.has_isal()
    slow = packed(payload)

    assert digest(fast) != digest(slow)
    assert digest(gzip.decompress(fast)) == digest(gzip.decompress(slow))


def test_archive_bytes_are_reproducible_and_contain_no_time(payload: Path) -> None:
    first = packed(payload)

    assert digest(packed(payload)) == digest(first)
    assert first[3:8] == bytes(5), "neither flags (a file's name) nor a time in the gzip header (RFC 1952)"

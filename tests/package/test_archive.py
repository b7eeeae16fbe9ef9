"""A payload that is large enough for isal: the same tar with it and without, for every reader of gzip."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from packager.package import archive
from packager.package.tree import Entry, Tree

if TYPE_CHECKING:
    from pathlib import Path

SPEC = """\
name: large
title: A model with large files
framework: mpi
image: {name: example/model, tag: "1"}
files: [run.sh]
assets: [assets]
overlays:
  single-node: {kind: Pod}
variants:
  - {script: run.sh}
"""


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


@pytest.mark.thorough
def test_build_reports_missing_isal_and_continues(payload: Path, tmp_path: Path) -> None:
    model = tmp_path / "large"
    (model / "assets").mkdir(parents=True)
    (model / "spec.yaml").write_text(SPEC)
    (model / "run.sh").write_text("#!/bin/sh\n")
    (model / "assets" / payload.name).hardlink_to(payload)
    program = "import sys; sys.modules['isal'] = None; from packager.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "build", str(model), "--destination", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"{tmp_path}/large.tar.gz\n"
    assert done.stderr == (
        "note: isal is not installed, so zlib compresses this payload; `pip install isal` makes it faster\n"
        f"note: {tmp_path}/large.tar.gz would unpack into the model's own folder: unpack it elsewhere\n"
        "note: the containers of large do not see its assets, which are not in the image: switch on "
        "--with model-nfs, model-pvc, model-host-path, nfs or host-path\n"
    )
    assert len(gzip.decompress((tmp_path / "large.tar.gz").read_bytes())) > payload.stat().st_size

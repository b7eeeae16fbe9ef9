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
    """What stands for so many bytes in an assertion, which pytest would spell out for minutes when it fails."""
    return hashlib.sha256(content).hexdigest()


def test_isal_and_zlib_hold_the_same_tar(payload: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isal")
    fast = packed(payload)
    monkeypatch.setitem(sys.modules, "isal", None)
    assert not archive.has_isal()
    slow = packed(payload)

    assert digest(fast) != digest(slow)
    assert digest(gzip.decompress(fast)) == digest(gzip.decompress(slow))


@pytest.mark.parametrize("without", [(), ("isal",)], ids=["isal", "zlib"])
def test_the_bytes_are_the_same_every_time_and_tell_no_time(
    payload: Path, monkeypatch: pytest.MonkeyPatch, without: tuple[str, ...]
) -> None:
    for name in without:
        monkeypatch.setitem(sys.modules, name, None)
    first = packed(payload)

    assert digest(packed(payload)) == digest(first)
    assert first[3:8] == bytes(5), "neither flags (a file's name) nor a time in the gzip header (RFC 1952)"


def test_what_is_random_is_stored_rather_than_expanded(payload: Path) -> None:
    assert len(packed(payload)) < 18 << 20


def test_tar_reads_what_isal_wrote(payload: Path, tmp_path: Path) -> None:
    pytest.importorskip("isal")
    path = tmp_path / "large.tar.gz"
    path.write_bytes(packed(payload))
    subprocess.run(["tar", "xzf", str(path), "-C", str(tmp_path)], check=True)

    assert digest((tmp_path / "large/assets/weights.bin").read_bytes()) == digest(payload.read_bytes())


def test_without_isal_the_build_says_so_and_builds(payload: Path, tmp_path: Path) -> None:
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
        "note: the containers of large do not see its assets, which are not in the image: switch on "
        "--with model-nfs, model-pvc, model-host-path, nfs or host-path\n"
    )
    assert len(gzip.decompress((tmp_path / "large.tar.gz").read_bytes())) > payload.stat().st_size

"""Tests that `verify` lists the files that the pods of a package fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

DIGEST = "0a" * 32
SPEC = f"""{demo.SPEC}sources:
  - {{from: "https://example.com/a", to: OUTPUT_DIR/data/a, sha256: {DIGEST}, size: 3}}
"""


def test_verify_lists_fetched_files_of_each_overlay(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    model = demo.write(tmp_path / "model", SPEC)
    assert mlpack("build", model, "--format", "dir").code == 0
    done = mlpack("verify", "demo-fp32-training")
    assert done.code == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if "fetch" in line]
    assert len(lines) == 2
    for line, folder in zip(lines, ("multi-node", "single-node"), strict=True):
        assert folder in line
        assert f"its pods fetch https://example.com/a to $(OUTPUT_DIR)/data/a: 3 bytes, sha256 {DIGEST}" in line
    readme = (tmp_path / "demo-fp32-training/README.md").read_text(encoding="utf-8")
    assert "- <https://example.com/a> to `OUTPUT_DIR/data/a`: 3 bytes\n" in readme

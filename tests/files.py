"""Edits files, as a user of a package does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace(path: Path, old: str, new: str) -> None:
    """Replace the first `old` in the file, which must contain it."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} holds no {old!r}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")

"""A Python package that tests install."""

from __future__ import annotations

import hashlib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def wheel(folder: Path, value: str) -> str:
    """Write the package `told`, whose VALUE is `value`, into a folder, and return its line for a requirements file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "told-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("told.py", f"VALUE = {value!r}\n")
        archive.writestr("told-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: told\nVersion: 1\n")
        archive.writestr("told-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("told-1.dist-info/RECORD", "told.py,,\n")
    return f"told==1 --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"

"""Reads a package's manifest, so that the rest can rely on its shape; `packager.tree.seal` makes it."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING, Any

from packager.contents import ContentError, normal, shown
from packager.errors import VerificationError, unreadable

if TYPE_CHECKING:
    from pathlib import Path

MANIFEST = "manifest.json"

_MAX_BYTES = 16 << 20
_NAME = r"[a-z]([-a-z0-9]*[a-z0-9])?"


def read(folder: Path) -> dict[str, Any]:
    """Return the manifest of the package in `folder`.

    Raises:
        VerificationError: There is none, or it is not what `seal` writes.
        ToolError: It cannot be read.
    """
    path = folder / MANIFEST
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise VerificationError(f"{path} is not a plain file")
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        raise VerificationError(f"{folder} is not a package: it holds no {MANIFEST}") from None
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > _MAX_BYTES:
        raise VerificationError(f"{path} is larger than any manifest")
    try:
        manifest = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise VerificationError(f"{path} is not a manifest: {error}") from None
    if complaint := _misshapen(manifest):
        raise VerificationError(f"{path} is not a manifest: {complaint}")
    return dict(manifest)


def _misshapen(manifest: Any) -> str | None:
    """Return what is wrong with the manifest's shape; None when all of it can be relied on."""
    if not isinstance(manifest, dict):
        return "expected an object"
    version, name, files = (manifest.get(key) for key in ("manifest", "package", "files"))
    if isinstance(version, bool) or version != 1:
        return f"expected version 1, found {version!r}"
    if not isinstance(name, str) or not re.fullmatch(_NAME, name) or len(name) > 253:
        return "expected the package's name at 'package'"
    if not isinstance(files, dict):
        return "expected digests at 'files'"
    return next((complaint for path in files if (complaint := _misfiled(path, files[path]))), None)


def _misfiled(path: str, sealed: Any) -> str | None:
    try:
        if normal(path) != path or not path:
            return f"{shown(path)} is not a plain path"
    except ContentError as error:
        return str(error)
    mode, digest = (sealed.get("mode"), sealed.get("sha256")) if isinstance(sealed, dict) else (None, None)
    if mode not in ("0644", "0755") or not re.fullmatch("[0-9a-f]{64}", str(digest)):
        return f"{shown(path)}: expected a mode of 0644 or 0755 and a sha256"
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    together = dict(pairs)
    if len(together) < len(pairs):
        raise ValueError("a key stands there twice")
    return together

"""Reads and validates a package's inventory, which `packager.package.tree.seal` makes. Tests: test_hostile.py."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.base import plainfiles
from packager.base.errors import VerificationError, unreadable
from packager.base.masking import shortened
from packager.base.names import LABEL_LENGTH, LETTER_FIRST, SUBDOMAIN_LENGTH, VERSION, VERSION_LENGTH, is_label
from packager.package.layout import INVENTORY, MAX_OVERLAYS
from packager.package.path_checks import ContentError, inactive, normalized, shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_BYTES = 16 << 20

_KEYS = ("manifest", "package", "version", "tool", "sequence", "workspace", "spec", "options", "files", "editable")
_TEXTS = {"tool": ("name", "version"), "spec": ("name", "sha256", "precision", "mode", "root", "registry")}
"""The texts in the objects that describe the build; they may be null."""
_LISTS = {"tool": (), "spec": ("set", "add", "with")}
_ENTRY = ("mode", "sha256")


def read(folder: Path) -> dict[str, Any]:
    """Return the inventory of the package in `folder`.

    Raises:
        VerificationError: The inventory is missing, or not as `seal` writes it.
        ToolError: The inventory cannot be read.
    """
    return parsed(content(folder), folder)


def content(folder: Path) -> bytes:
    """Return the inventory of the package in `folder`."""
    path = folder / INVENTORY
    try:
        path.lstat()
    except FileNotFoundError:
        raise VerificationError(f"{folder} is not a package: it contains no {INVENTORY}") from None
    except OSError as error:
        raise unreadable(path, error) from None
    return plainfiles.read(folder, INVENTORY, str(path), MAX_BYTES)


def parsed(content: bytes, folder: Path) -> dict[str, Any]:
    """Return the content of an inventory. Raises VerificationError when it is not in the form that `seal` writes."""
    path = folder / INVENTORY
    try:
        inventory = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise VerificationError(f"{path} is not the inventory of a package: {error}") from None
    if complaint := _shape_complaint(inventory):
        raise VerificationError(f"{path} is not the inventory of a package: {complaint}")
    return dict(inventory)


def _shape_complaint(inventory: Any) -> str | None:
    """Return the error in the inventory's structure; None if all of it is as expected."""
    if not isinstance(inventory, dict):
        return "expected an object"
    version, name, files, editable = (inventory.get(key) for key in ("manifest", "package", "files", "editable"))
    if isinstance(version, bool) or version != 1:
        return f"expected version 1, found {shortened(repr(version), 60)}"
    if not isinstance(name, str) or not re.fullmatch(LETTER_FIRST, name) or len(name) > SUBDOMAIN_LENGTH:
        return "expected the package's name at 'package'"
    if not isinstance(files, dict):
        return "expected digests at 'files'"
    if not isinstance(editable, dict) or not all(map(_are_lines, editable.values())) or editable.keys() - files.keys():
        return "expected lists of lines, of files that have a digest, at 'editable'"
    complaint = _key_complaint(inventory, _KEYS) or _names_complaint(inventory) or _build_complaint(inventory)
    return complaint or next((complaint for path in files if (complaint := _entry_complaint(path, files[path]))), None)


def _names_complaint(inventory: dict[str, Any]) -> str | None:
    """Return the error in the version, and in the names that an inventory lists; None without one."""
    if (version := inventory.get("version")) is not None and not _is_version(version):
        return "expected a version such as 1.0.0 at 'version'"
    if not _are_overlays(inventory.get("sequence", [])):
        return "expected different names of overlays at 'sequence'"
    claim = inventory.get("workspace")
    if claim is not None and not (isinstance(claim, str) and is_label(claim)):
        return "expected the name of a claim at 'workspace'"
    options = inventory.get("options", {})
    if not isinstance(options, dict) or not all(re.fullmatch("[0-9a-f]{64}", str(value)) for value in options.values()):
        return "expected digests at 'options'"
    return None


def _build_complaint(inventory: dict[str, Any]) -> str | None:
    """Return the error in the description of the build, which is only shown; None without one."""
    for key, texts in _TEXTS.items():
        about = inventory.get(key, {})
        if not isinstance(about, dict):
            return f"expected an object at {key!r}"
        if complaint := _key_complaint(about, (*texts, *_LISTS[key])):
            return complaint
        are_texts = all(isinstance(about.get(text), str | None) for text in texts)
        if not are_texts or not all(_are_lines(about.get(name, [])) for name in _LISTS[key]):
            return f"expected texts, and lists of texts, at {key!r}"
    return None


def _key_complaint(entries: dict[str, Any], expected: Sequence[str]) -> str | None:
    """Return the error that an object has a key which no build writes; None without one."""
    unknown = next((key for key in entries if key not in expected), None)
    return None if unknown is None else f"unknown key {shortened(repr(unknown), 60)}"


def _is_version(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= VERSION_LENGTH and re.fullmatch(VERSION, value) is not None


def _are_lines(lines: Any) -> bool:
    return isinstance(lines, list) and all(isinstance(line, str) for line in lines)


def _are_overlays(names: Any) -> bool:
    """Whether these are different names that overlays can have."""
    return (
        isinstance(names, list)
        and len(names) <= MAX_OVERLAYS
        and all(isinstance(name, str) and len(name) <= LABEL_LENGTH for name in names)
        and all(re.fullmatch(LETTER_FIRST, name) for name in names)
        and len(set(names)) == len(names)
    )


def _entry_complaint(path: str, sealed: Any) -> str | None:
    try:
        if inactive(normalized(path)) != path or not path:
            return f"{shown(path)} is not a plain path"
    except ContentError as error:
        return str(error)
    mode, digest = (sealed.get("mode"), sealed.get("sha256")) if isinstance(sealed, dict) else (None, None)
    if complaint := _key_complaint(sealed, _ENTRY) if isinstance(sealed, dict) else None:
        return f"{shown(path)}: {complaint}"
    if mode not in ("0644", "0755") or not re.fullmatch("[0-9a-f]{64}", str(digest)):
        return f"{shown(path)}: expected a mode of 0644 or 0755 and a sha256"
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    together = dict(pairs)
    if len(together) < len(pairs):
        raise ValueError("duplicate key")
    return together

"""Reads and validates a package's inventory, which `packager.package.tree.seal` makes. Tests: test_hostile.py."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from packager.base import paths
from packager.base.errors import VerificationError
from packager.base.masking import shortened
from packager.base.names import LABEL_LENGTH, LETTER_FIRST, SUBDOMAIN_LENGTH, VERSION, VERSION_LENGTH, is_label
from packager.base.values import Fields, FieldsError, Meta, convert, field
from packager.package.layout import INVENTORY, MAX_OVERLAYS
from packager.package.path_checks import ContentError, inactive, normalized, shown

MAX_BYTES = 16 << 20

_Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Overlay = Annotated[str, Meta(max_length=LABEL_LENGTH, pattern=rf"\A(?:{LETTER_FIRST})\Z")]


class _Seal(Fields, frozen=True):
    mode: Literal["0644", "0755"]
    sha256: _Digest


class _Tool(Fields, frozen=True):
    name: str | None = None
    version: str | None = None


class _Build(Fields, frozen=True):
    """The spec and the options of the build."""

    name: str | None = None
    sha256: str | None = None
    precision: str | None = None
    mode: str | None = None
    root: str | None = None
    registry: str | None = None
    set: list[str] = field(default_factory=list)
    add: list[str] = field(default_factory=list)
    components: list[str] = field(default_factory=list, name="with")


class _Inventory(Fields, frozen=True):
    manifest: Literal[1]
    package: Annotated[str, Meta(max_length=SUBDOMAIN_LENGTH, pattern=rf"\A(?:{LETTER_FIRST})\Z")]
    files: dict[str, _Seal]  # by path
    editable: dict[str, list[str]]  # the lines of files, by path
    version: Annotated[str, Meta(max_length=VERSION_LENGTH, pattern=rf"\A(?:{VERSION})\Z")] | None = None
    tool: _Tool = _Tool()
    spec: _Build = _Build()
    sequence: Annotated[list[_Overlay], Meta(max_length=MAX_OVERLAYS)] = field(default_factory=list)
    workspace: str | None = None
    options: dict[str, _Digest] = field(default_factory=dict)  # the digests of components, by option


def read(folder: Path) -> dict[str, Any]:
    """Return the inventory of the package in `folder`."""
    return parsed(content(folder), folder)


def content(folder: Path) -> bytes:
    """Return the inventory of the package in `folder`."""
    if not os.path.lexists(folder / INVENTORY):
        raise VerificationError(f"{folder} is not a package: it contains no {INVENTORY}")
    return paths.read(folder, INVENTORY, str(folder / INVENTORY), MAX_BYTES)


def parsed(content: bytes, folder: Path) -> dict[str, Any]:
    """Return the content of an inventory. Raises VerificationError when it is not in the form that `seal` writes."""
    try:
        values = json.loads(content)
        if isinstance(values, dict) and values.get("manifest") != 1:
            raise ValueError(f"expected version 1, found {values.get('manifest')!r}")  # noqa: TRY301
        _check(convert(values, _Inventory))
    except (ValueError, RecursionError, FieldsError, ContentError) as error:
        message = f"{folder / INVENTORY} is not the inventory of a package: {shortened(str(error), 200)}"
        raise VerificationError(message) from None
    return dict(values)


def _check(inventory: _Inventory) -> None:
    """Refuse what the types do not express. Raises ContentError."""
    for path in inventory.files:
        if inactive(normalized(path)) != path or not path:
            raise ContentError(f"{shown(path)} is not a plain path")
    if inventory.editable.keys() - inventory.files.keys():
        raise ContentError("expected lists of lines, of files that have a digest, at 'editable'")
    if len(set(inventory.sequence)) < len(inventory.sequence):
        raise ContentError("expected different names of overlays at 'sequence'")
    if inventory.workspace is not None and not is_label(inventory.workspace):
        raise ContentError("expected the name of a claim at 'workspace'")

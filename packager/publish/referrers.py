"""Lists the manifests that refer to another one, and adds one: by the registry's API, or by the tag that replaces it.

OCI distribution-spec 1.1, "Listing Referrers" and "Referrers Tag Schema".

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from packager.base import jsonio
from packager.base.errors import ToolError, VerificationError
from packager.publish.reference import dashed
from packager.publish.registry import INDEX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.publish.registry import Repository
    from packager.publish.upload import Descriptor


class Readable(Protocol):
    """A repository that is read: one of a registry, or one in a bundle."""

    def find_manifest(self, version: str) -> tuple[bytes, str] | None:
        """See `packager.publish.registry.Repository`."""

    def referrers(self, digest: str) -> bytes | None:
        """See `packager.publish.registry.Repository`."""

    def content(self, blob: Descriptor) -> bytes:
        """See `packager.publish.registry.Repository`."""


_TRIES = 3
_MOST = 1_000
_MOST_VALUES = 50_000


def listed(registry: Readable, digest: str) -> list[dict[str, Any]]:
    """Return the descriptors of the manifests that refer to `digest`, as others have written them."""
    content = registry.referrers(digest)
    return _tagged(registry, digest) if content is None else _entries(content, digest)


def add(registry: Repository, digest: str, entry: Mapping[str, Any]) -> None:
    """Add a manifest to the tag that lists those which refer to `digest`, in a registry that does not do so itself."""
    tag = dashed(digest)
    for _ in range(_TRIES):
        entries = _tagged(registry, digest)
        if any(other.get("digest") == entry["digest"] for other in entries):
            return
        if len(entries) >= _MOST:
            raise ToolError(f"{digest}: {len(entries):,} manifests refer to it already; nothing was added")
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*entries, dict(entry)]}
        content = jsonio.compact_bytes(index)
        registry.put_manifest(tag, content, INDEX)
    if all(other.get("digest") != entry["digest"] for other in _tagged(registry, digest)):
        raise ToolError(f"the tag {tag} is changed by other programs again and again", hint="push again")


def _tagged(registry: Readable, digest: str) -> list[dict[str, Any]]:
    present = registry.find_manifest(dashed(digest))
    return [] if present is None else _entries(present[0], digest)


def _entries(content: bytes, digest: str) -> list[dict[str, Any]]:
    try:
        index = jsonio.read(content, max_values=_MOST_VALUES)
    except jsonio.JsonError as error:
        raise VerificationError(f"{digest}: the list of what refers to it is not valid: {error}") from None
    entries = index.get("manifests") if isinstance(index, dict) else None
    if not isinstance(entries, list):
        raise VerificationError(f"{digest}: the list of what refers to it is not valid: expected an index")
    return [entry for entry in entries if isinstance(entry, dict)]

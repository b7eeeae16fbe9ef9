"""Reads a repository in a bundle as one in a registry is read. Tests: cli/test_bundle.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.errors import VerificationError, unreadable
from packager.publish.reference import is_digest
from packager.publish.registry import INDEX, MANIFEST_BYTES

if TYPE_CHECKING:
    from packager.publish.layout import Layout
    from packager.publish.upload import Descriptor


class BundledRepository:
    """One repository of a layout that has been read; all digests were checked then."""

    def __init__(self, layout: Layout, name: str) -> None:
        self._layout = layout
        self._roots = [root for root in layout.roots if root.repository == name]

    def find_manifest(self, version: str) -> tuple[bytes, str] | None:
        """Return the manifest with a tag or a digest, and its digest; None if the bundle has no such manifest."""
        tagged = (root.blob.digest for root in self._roots if root.tag == version)
        digest = version if is_digest(version) else next(tagged, None)
        if digest not in self._layout.manifests:
            return None
        return self._layout.manifests[digest][0], digest

    def referrers(self, digest: str) -> bytes:
        """Return the index of the manifests that refer to another one."""
        entries = []
        for root in self._roots:
            content, manifest = self._layout.manifests[root.blob.digest]
            if manifest.subject == digest:
                entry = {"mediaType": manifest.kind, "digest": root.blob.digest, "size": len(content)}
                copied = {key: manifest.content.get(key) for key in ("artifactType", "annotations")}
                entries.append(entry | {key: value for key, value in copied.items() if value is not None})
        return jsonio.compact_bytes({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})

    def content(self, blob: Descriptor) -> bytes:
        """Return a blob of at most MANIFEST_BYTES bytes.

        Raises:
            VerificationError: The blob is larger, or missing.
            ToolError: The bundle cannot be read.
        """
        offset = self._layout.blobs.get(blob)
        if offset is None or blob.size > MANIFEST_BYTES:
            raise VerificationError(f"{self._layout.path}: {blob.digest} of {blob.size:,} bytes is missing or large")
        try:
            with self._layout.path.open("rb") as stream:
                stream.seek(offset)
                return stream.read(blob.size)
        except OSError as error:
            raise unreadable(self._layout.path, error) from None

"""Reads a repository in a bundle as one in a registry is read. Tests: cli/test_bundle.py."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from packager.base import jsonio
from packager.base.errors import ToolError, VerificationError, unreadable
from packager.base.web import PIECE
from packager.publish.reference import is_digest
from packager.publish.registry import INDEX, MANIFEST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

    from packager.publish.layout import Layout
    from packager.publish.upload import Descriptor


class BundledRepository:
    """One repository of a layout that has been read; all digests were checked then.

    Attributes:
        is_plain: Whether it is used over http; it is not.
    """

    is_plain = False

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

    def manifest(self, version: str) -> tuple[bytes, str]:
        """Return the manifest with a tag or a digest, and its digest. Raises ToolError without one."""
        present = self.find_manifest(version)
        if present is None:
            raise ToolError(f"{self._layout.path}: {version} not found")
        return present

    def tags(self) -> tuple[str, ...]:
        """Return the tags of the repository."""
        return tuple(root.tag for root in self._roots if root.tag is not None)

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
        if blob not in self._layout.blobs or blob.size > MANIFEST_BYTES:
            raise VerificationError(f"{self._layout.path}: {blob.digest} of {blob.size:,} bytes is missing or large")
        stream = io.BytesIO()
        self.download(blob, stream)
        return stream.getvalue()

    def download(
        self, blob: Descriptor, stream: IO[bytes], advance: Callable[[int], object] = lambda _size: None
    ) -> None:
        """Write a blob to a stream.

        Args:
            blob: The blob.
            stream: The stream, at its beginning.
            advance: Receives the number of bytes of each piece.

        Raises:
            ToolError: The bundle cannot be read.
            OSError: The stream cannot be written.
        """
        try:
            source = self._layout.path.open("rb")
        except OSError as error:
            raise unreadable(self._layout.path, error) from None
        with source:
            source.seek(self._layout.blobs[blob])
            left = blob.size
            while left:
                piece = source.read(min(left, PIECE))
                if not piece:
                    raise ToolError(f"{self._layout.path} has changed while it was read")
                stream.write(piece)
                left -= len(piece)
                advance(len(piece))

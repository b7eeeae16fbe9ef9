"""Reads OCI manifests and indexes from others (image-spec 1.1), and names their media types.

Tests: publish/test_artefact.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import Annotated

from packager.base.errors import VerificationError
from packager.base.values import FieldsError, Meta, Value, from_json

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST_BYTES = 4 << 20
"""The most bytes of a manifest, and of a config."""

_Digest = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}(?![\s\S])")]
_Size = Annotated[int, Meta(ge=0, le=1 << 42)]
_MediaType = Annotated[str, Meta(pattern=r"^[!-~]{0,255}(?![\s\S])")]


class Descriptor(Value, frozen=True):
    """A blob: its digest, and its size in bytes."""

    digest: str
    size: int


class Platform(Value, frozen=True):
    """The platform of a manifest in an index."""

    os: str = ""
    architecture: str = ""
    variant: str = ""


class Entry(Value, frozen=True, rename="camel"):
    """A config, a layer, or a manifest in an index."""

    digest: _Digest
    size: _Size
    media_type: _MediaType = ""
    annotations: Mapping[str, str] | None = None
    platform: Platform | None = None

    @property
    def blob(self) -> Descriptor:
        """The digest and the size."""
        return Descriptor(self.digest, self.size)


class Manifest(Value, frozen=True, rename="camel"):
    """A manifest, or an index of manifests."""

    media_type: _MediaType | None = None
    artifact_type: _MediaType | None = None
    config: Entry | None = None
    layers: tuple[Entry, ...] = ()
    manifests: tuple[Entry, ...] | None = None  # of an index
    subject: Entry | None = None  # the manifest that it refers to
    annotations: Mapping[str, str] | None = None

    @property
    def kind(self) -> str:
        """The media type."""
        return self.media_type or (MANIFEST if self.manifests is None else INDEX)

    @property
    def blobs(self) -> tuple[Descriptor, ...]:
        """The config and the layers; none for an index."""
        entries = () if self.config is None or self.manifests is not None else (self.config, *self.layers)
        return tuple(entry.blob for entry in entries)

    @property
    def children(self) -> tuple[Descriptor, ...]:
        """The manifests of an index."""
        return tuple(entry.blob for entry in self.manifests or ())


def read(content: bytes, shown: str) -> Manifest:
    """Return a manifest from others, which messages call `shown`. Raises VerificationError if it is none."""
    try:
        manifest = from_json(content, Manifest)
    except FieldsError as error:
        raise VerificationError(f"{shown} is not a valid manifest: {error}") from None
    if manifest.config is None and manifest.manifests is None:
        raise VerificationError(f"{shown} is not a manifest: expected a config and layers, or manifests")
    return manifest


def descriptor(content: bytes) -> Descriptor:
    """Return the descriptor of some bytes."""
    return Descriptor(f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))

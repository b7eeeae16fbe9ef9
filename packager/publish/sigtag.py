"""Makes and reads the older signatures of cosign: a manifest with the tag `sha256-HEX.sig`, a layer for each signature.

Flux up to 2.7 and older policy engines read nothing else (sigstore/cosign, specs/SIGNATURE_SPEC.md).

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.problems import show
from packager.base.values import Value
from packager.publish.bundle import BundleError, decoded, read_object
from packager.publish.reference import dashed, is_digest
from packager.publish.registry import MANIFEST
from packager.publish.upload import Descriptor

if TYPE_CHECKING:
    from packager.publish.reference import PackageReference

PAYLOAD_BYTES = 64 << 10
"""The most bytes of what is signed."""

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.dev.cosign.simplesigning.v1+json"
_SIGNATURE = "dev.cosignproject.cosign/signature"
_TYPE = "cosign container image signature"
_NO_TIME = "0001-01-01T00:00:00Z"


class TaggedSignature(Value, frozen=True):
    """A signature in the manifest: the blob with what is signed, and the signature over it."""

    payload: Descriptor
    signature: bytes


def tag(digest: str) -> str:
    """Return the tag with the signatures of an artefact."""
    return f"{dashed(digest)}.sig"


def payload(reference: PackageReference, digest: str) -> bytes:
    """Return the bytes that are signed."""
    critical = {
        "identity": {"docker-reference": f"{reference.host}/{reference.repository}"},
        "image": {"docker-manifest-digest": digest},
        "type": _TYPE,
    }
    return jsonio.compact_bytes({"critical": critical, "optional": None})


def signed_digest(content: bytes) -> str:
    """Return the digest of the artefact that a payload from others is about.

    The repository that it names does not count: a copy in another registry keeps its signatures.

    Raises:
        BundleError: The payload is not one of a signature.
    """
    value = read_object(content, "the payload of a signature")
    critical = value.get("critical")
    image = critical.get("image") if isinstance(critical, dict) else None
    digest = image.get("docker-manifest-digest") if isinstance(image, dict) else None
    if not isinstance(critical, dict) or critical.get("type") != _TYPE or not is_digest(digest):
        raise BundleError("the payload is not that of a signature of an image")
    return str(digest)


def entry(content: bytes, signature: bytes) -> dict[str, Any]:
    """Return the layer with a signature."""
    return {
        "mediaType": _LAYER,
        "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
        "size": len(content),
        "annotations": {_SIGNATURE: base64.b64encode(signature).decode()},
    }


def layers(manifest: bytes) -> list[dict[str, Any]]:
    """Return the layers of a manifest from others. Raises BundleError."""
    values = read_object(manifest, "the manifest of signatures").get("layers")
    if not isinstance(values, list):
        raise BundleError("the manifest of signatures has no layers")
    return [value for value in values if isinstance(value, dict)]


def signature(layer: dict[str, Any]) -> TaggedSignature:
    """Return the signature in a layer from others. Raises BundleError."""
    digest, size, annotations = layer.get("digest"), layer.get("size"), layer.get("annotations")
    if layer.get("mediaType") != _LAYER:
        raise BundleError(f"expected a layer of the type {_LAYER}, found {show(layer.get('mediaType'))}")
    if not is_digest(digest) or not isinstance(size, int) or not 0 < size <= PAYLOAD_BYTES:
        raise BundleError(f"expected a payload with a digest of sha256 and at most {PAYLOAD_BYTES >> 10} KiB")
    return TaggedSignature(
        Descriptor(str(digest), size), decoded(annotations.get(_SIGNATURE) if isinstance(annotations, dict) else None)
    )


def manifest(entries: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    """Return the manifest with these layers, and its config."""
    config = jsonio.compact_bytes(
        {
            "architecture": "",
            "created": _NO_TIME,
            "history": [{"created": _NO_TIME} for _ in entries],
            "os": "",
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in entries]},
            "config": {},
        }
    )
    blob = {"mediaType": _CONFIG, "digest": f"sha256:{hashlib.sha256(config).hexdigest()}", "size": len(config)}
    return jsonio.compact_bytes({"schemaVersion": 2, "mediaType": MANIFEST, "config": blob, "layers": entries}), config

"""Attaches bundles with signatures to an artefact in a registry, and reads those that are attached to one.

A bundle is the only layer of a manifest that refers to the artefact. Small ones are also in the manifest itself (the
field `data` of OCI image-spec 1.1), so one request reads both.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import VerificationError
from packager.publish import artefact, referrers
from packager.publish.artefact import EMPTY_CONFIG
from packager.publish.bundle import BUNDLE, BUNDLE_BYTES, SIGNATURE, BundleError, decoded
from packager.publish.reference import is_digest
from packager.publish.registry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.publish.referrers import Readable
    from packager.publish.registry import Repository
    from packager.publish.upload import Descriptor

_PREDICATE = "dev.sigstore.bundle.predicateType"
_CONTENT = "dev.sigstore.bundle.content"

_MANIFEST_BYTES = 2 * BUNDLE_BYTES
"""The most bytes of a manifest that contains its bundle."""


def listed(registry: Readable, digest: str) -> list[dict[str, Any]]:
    """Return the descriptors of the bundles that refer to an artefact and are listed as signatures of it.

    Raises:
        VerificationError: The registry sends no index.
        ToolError: The registry does not respond as it must.
    """
    return [entry for entry in referrers.listed(registry, digest) if _is_signature(entry)]


def _is_signature(entry: Mapping[str, Any]) -> bool:
    """Whether a manifest is listed as a signature; some registries list the type of its config as its own."""
    kind, annotations = entry.get("artifactType"), entry.get("annotations")
    claimed = annotations.get(_PREDICATE) if isinstance(annotations, dict) else None
    return claimed == SIGNATURE if kind == EMPTY_CONFIG else kind == BUNDLE and claimed in (SIGNATURE, None)


def content(registry: Readable, entry: Mapping[str, Any]) -> bytes:
    """Return a bundle. Raises BundleError if it is not valid, and the errors of the registry."""
    name, size = entry.get("digest"), entry.get("size")
    if not is_digest(name) or not isinstance(size, int) or not 0 < size <= _MANIFEST_BYTES:
        raise BundleError("expected a bundle with a digest of sha256 and a small manifest")
    present = registry.find_manifest(str(name))
    if present is None:
        raise BundleError(f"{name} not found")
    try:
        layer = artefact.described(present[0], str(name), (BUNDLE,)).layer
    except VerificationError as error:
        raise BundleError(str(error)) from None
    if not 0 < layer.size <= BUNDLE_BYTES:
        raise BundleError(f"expected at most {BUNDLE_BYTES >> 10} KiB, found {layer.size:,} bytes")
    embedded = decoded(jsonio.read_object(present[0])["layers"][0].get("data"))
    if not embedded:
        return registry.content(layer)
    if artefact.descriptor(embedded) != layer:
        raise BundleError(f"{name} contains another bundle than it describes")
    return embedded


def attach(registry: Repository, subject: Descriptor, bundle: bytes, created: str | None = None) -> bool:
    """Attach a bundle to an artefact, and return whether it was missing.

    Args:
        registry: The repository.
        subject: The manifest of the artefact.
        bundle: The bundle.
        created: The time, as RFC 3339; None for none.

    Raises:
        VerificationError: The registry stores or sends something else than it must.
        ToolError: The registry does not respond as it must.
    """
    annotations = {_CONTENT: "dsse-envelope", _PREDICATE: SIGNATURE}
    if created is not None:
        annotations[artefact.CREATED] = created
    manifest = artefact.referring(BUNDLE, bundle, subject, annotations)
    digest, size = f"sha256:{hashlib.sha256(manifest).hexdigest()}", len(manifest)
    if any(entry.get("digest") == digest for entry in referrers.listed(registry, subject.digest)):
        return False
    for blob in (artefact.EMPTY, bundle):
        registry.upload(artefact.descriptor(blob), blob)
    if not registry.put_manifest(digest, manifest):
        entry = {"mediaType": MANIFEST, "digest": digest, "size": size, "artifactType": BUNDLE}
        referrers.add(registry, subject.digest, entry | {"annotations": annotations})
    return True


def stored(content: bytes, subject: Descriptor) -> bytes:
    """Return the manifest that attaches a bundle to an artefact."""
    return artefact.referring(BUNDLE, content, subject, {_CONTENT: "dsse-envelope", _PREDICATE: SIGNATURE})

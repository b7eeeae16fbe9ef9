"""Attaches bundles with statements to an artefact in a registry, and reads those that are attached to one.

A bundle is the only layer of a manifest that refers to the artefact. Small ones are also in the manifest itself (the
field `data` of OCI image-spec 1.1), so one request reads both.

Tests: cli/test_push_statements.py.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import VerificationError
from packager.base.values import Value
from packager.publish import artefact, referrers
from packager.publish.artefact import EMPTY_CONFIG
from packager.publish.bundle import BUNDLE, BUNDLE_BYTES, SIGNATURE, STAMP, STATEMENT, BundleError, decoded
from packager.publish.reference import is_digest
from packager.publish.registry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from packager.publish.referrers import Readable
    from packager.publish.registry import Repository
    from packager.publish.upload import Descriptor

_PREDICATE = "dev.sigstore.bundle.predicateType"
_CONTENT = "dev.sigstore.bundle.content"

_MANIFEST_BYTES = 2 * BUNDLE_BYTES
"""The most bytes of a manifest that contains its bundle."""

MOST_READ = 16
"""So many bundles of a kind are read."""


class Attachment(Value, frozen=True):
    """A bundle in the list of what refers to an artefact.

    Attributes:
        entry: The descriptor, as others have written it.
        predicate_type: The type of the statement, as the list claims it; empty if it claims none.
    """

    entry: Mapping[str, Any]
    predicate_type: str


def listed(registry: Readable, digest: str) -> tuple[Attachment, ...]:
    """Return the bundles and stamps that refer to an artefact, signatures before other statements.

    Raises:
        VerificationError: The registry sends no index.
        ToolError: The registry does not respond as it must.
    """
    attachments = [
        Attachment(entry, _claimed(entry)) for entry in referrers.listed(registry, digest) if _is_attachment(entry)
    ]
    return tuple(sorted(attachments, key=lambda one: one.predicate_type not in (SIGNATURE, "")))


def _is_attachment(entry: Mapping[str, Any]) -> bool:
    """Whether a manifest is listed as a bundle or a stamp; some registries list the type of its config instead."""
    kind, predicate_type = entry.get("artifactType"), _claimed(entry)
    return (
        kind == BUNDLE
        or (kind == STATEMENT and predicate_type == STAMP)
        or (kind == EMPTY_CONFIG and bool(predicate_type))
    )


def _claimed(entry: Mapping[str, Any]) -> str:
    annotations = entry.get("annotations")
    claimed = annotations.get(_PREDICATE) if isinstance(annotations, dict) else None
    return claimed if isinstance(claimed, str) else ""


def contents(
    registry: Readable, attachments: Iterable[Attachment], predicate_type: str
) -> tuple[tuple[bytes, ...], tuple[str, ...]]:
    """Return the bundles of one kind, and a message for each that is not valid.

    Raises:
        VerificationError: The registry sends something else than it has promised.
        ToolError: The registry does not respond as it must.
    """
    chosen = [one for one in attachments if one.predicate_type == predicate_type]
    read, messages = [], []
    for attachment in chosen[:MOST_READ]:
        try:
            read.append(content(registry, attachment))
        except BundleError as error:
            messages.append(str(error))
    if len(chosen) > MOST_READ:
        messages.append(f"{len(chosen) - MOST_READ:,} more bundles were not read")
    return tuple(read), tuple(messages)


def content(registry: Readable, attachment: Attachment) -> bytes:
    """Return a bundle. Raises BundleError if it is not valid, and the errors of the registry."""
    name, size = attachment.entry.get("digest"), attachment.entry.get("size")
    if not is_digest(name) or not isinstance(size, int) or not 0 < size <= _MANIFEST_BYTES:
        raise BundleError("expected a bundle with a digest of sha256 and a small manifest")
    present = registry.find_manifest(str(name))
    if present is None:
        raise BundleError(f"{name} not found")
    try:
        layer = artefact.described(present[0], str(name), (BUNDLE, STATEMENT)).layer
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


def attach(
    registry: Repository, subject: Descriptor, bundle: bytes, predicate_type: str, created: str | None = None
) -> bool:
    """Attach a bundle to an artefact, and return whether it was missing.

    Args:
        registry: The repository.
        subject: The manifest of the artefact.
        bundle: The bundle.
        predicate_type: The type of its statement.
        created: The time, as RFC 3339; None for none.

    Raises:
        VerificationError: The registry stores or sends something else than it must.
        ToolError: The registry does not respond as it must.
    """
    annotations = {_CONTENT: "dsse-envelope", _PREDICATE: predicate_type}
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


def stored(kind: str, content: bytes, predicate_type: str, subject: Descriptor) -> bytes:
    """Return the manifest that attaches a statement to an artefact in a bundle.

    Args:
        kind: `BUNDLE` for one that names the artefact, else `STATEMENT`.
        content: The statement, signed or not.
        predicate_type: The type of the statement.
        subject: The manifest of the artefact.
    """
    annotations = {_CONTENT: "dsse-envelope"} if kind == BUNDLE else {}
    return artefact.referring(kind, content, subject, annotations | {_PREDICATE: predicate_type})

"""Attaches signatures to an artefact in a registry, and finds and judges those that are attached to one.

A signature is a bundle, as cosign 3 and Flux read them: the only layer of a manifest that refers to the artefact. Small
ones are also in the manifest itself (the field `data` of OCI image-spec 1.1), so one request reads both.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.errors import VerificationError, missing_extra
from packager.base.values import Value
from packager.publish import artefact, bundle, referrers
from packager.publish.artefact import EMPTY_CONFIG
from packager.publish.bundle import BUNDLE, BUNDLE_BYTES, SIGNATURE, BundleError
from packager.publish.reference import is_digest
from packager.publish.registry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.publish.keys import PublicKey
    from packager.publish.referrers import Readable
    from packager.publish.registry import Repository
    from packager.publish.signer import Signer
    from packager.publish.upload import Descriptor

_PREDICATE = "dev.sigstore.bundle.predicateType"
_CONTENT = "dev.sigstore.bundle.content"
_MANIFEST_BYTES = 2 * BUNDLE_BYTES  # of a manifest that contains its bundle
_MOST_READ = 16


class Signature(Value, frozen=True):
    """A signature, and whether it can be trusted."""

    signer: str | None = None  # the name of the trusted key that made it; None if another key made it
    fingerprint: str | None = None  # of this key; for another key, as the bundle claims it
    problem: str | None = None  # why it is refused, whichever key made it; None for a signature of the artefact
    content: bytes = b""  # the bundle; empty if it could not be read

    @property
    def is_trusted(self) -> bool:
        """Whether a trusted key has signed this artefact."""
        return self.signer is not None and self.problem is None

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "signer": self.signer if self.is_trusted else None,
            "fingerprint": self.fingerprint,
            "trusted": self.is_trusted,
            "problem": self.problem,
        }

    def __str__(self) -> str:
        if self.problem is not None:
            return f"not accepted: {self.problem}"
        if self.signer is not None:
            return f"by {self.signer} {self.fingerprint}"
        return f"by an unknown key{f' {self.fingerprint}' if self.fingerprint else ''}: not trusted"


class SignedArtefact(Value, frozen=True):
    """An artefact that is signed."""

    manifest: Descriptor
    file: str  # the name of its layer
    layer: str  # the digest of its layer, which is signed too: so the file alone can be checked
    created: str | None = None  # the time of the signature as RFC 3339


def judge(content: bytes, digest: str, keys: Sequence[PublicKey]) -> Signature:
    """Return the signature in a bundle, which must be one of the artefact or file with this digest.

    Raises:
        ToolError: The library for signatures is missing.
    """
    try:
        envelope = bundle.read(content)
        statement = bundle.read_statement(envelope.payload)
    except BundleError as error:
        return Signature(problem=str(error), content=content)
    key = _key_of(envelope.signature, bundle.signed_bytes(envelope.payload), keys)
    problem = None
    if statement.predicate_type != SIGNATURE:
        problem = f"it is not a signature, but a statement of the type {statement.predicate_type}"
    elif digest not in statement.digests:
        problem = f"it is of something else: expected {digest}, found {', '.join(statement.digests[:3]) or 'none'}"
    if key is None:
        return Signature(None, envelope.hint, problem, content)
    return Signature(key.name, key.fingerprint, problem, content)


def _key_of(signature: bytes, content: bytes, keys: Sequence[PublicKey]) -> PublicKey | None:
    """Return the key that has made a signature over some bytes; None without one. Raises ToolError."""
    if not keys:
        return None
    try:
        from packager.publish.signer import is_valid  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise missing_extra("checking a signature", error, "sign") from None
    return next((key for key in keys if is_valid(key, signature, content)), None)


def find(registry: Readable, digest: str, keys: Sequence[PublicKey]) -> tuple[Signature, ...]:
    """Return the signatures of an artefact.

    What is not valid is a signature with a problem: anyone who may push can attach anything.

    Args:
        registry: The repository.
        digest: The digest of the artefact.
        keys: The keys that are trusted.

    Raises:
        VerificationError: The registry sends something else than it has promised.
        ToolError: The registry does not respond as it must, or the library for signatures is missing.
    """
    listed = [entry for entry in referrers.listed(registry, digest) if _is_signature(entry)]
    signatures = []
    for entry in listed[:_MOST_READ]:
        try:
            signatures.append(judge(_read(registry, entry), digest, keys))
        except BundleError as error:
            signatures.append(Signature(problem=str(error)))
    if len(listed) > _MOST_READ:
        signatures.append(Signature(problem=f"{len(listed) - _MOST_READ:,} more bundles were not read"))
    return tuple(signatures)


def _is_signature(entry: Mapping[str, Any]) -> bool:
    """Whether a manifest is listed as a signature; some registries list the type of its config as its own."""
    kind, annotations = entry.get("artifactType"), entry.get("annotations")
    claimed = annotations.get(_PREDICATE) if isinstance(annotations, dict) else None
    return claimed == SIGNATURE if kind == EMPTY_CONFIG else kind == BUNDLE and claimed in (SIGNATURE, None)


def _read(registry: Readable, entry: Mapping[str, Any]) -> bytes:
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
    embedded = bundle.decoded(jsonio.read_object(present[0])["layers"][0].get("data"))
    if not embedded:
        return registry.content(layer)
    if artefact.descriptor(embedded) != layer:
        raise BundleError(f"{name} contains another bundle than it describes")
    return embedded


def attach(registry: Repository, signed: SignedArtefact, signers: Sequence[Signer]) -> bool:
    """Attach the signature of each key, and return whether anything was sent.

    Raises:
        VerificationError: The registry stores or sends something else than it must.
        ToolError: The registry does not respond as it must.
    """
    attached = [_attach(registry, signed, sign(signed, signer)) for signer in signers]
    return any(attached)


def _attach(registry: Repository, signed: SignedArtefact, content: bytes) -> bool:
    subject = signed.manifest
    annotations = {_CONTENT: "dsse-envelope", _PREDICATE: SIGNATURE}
    if signed.created is not None:
        annotations[artefact.CREATED] = signed.created
    manifest = artefact.referring(BUNDLE, content, subject, annotations)
    digest, size = f"sha256:{hashlib.sha256(manifest).hexdigest()}", len(manifest)
    if any(entry.get("digest") == digest for entry in referrers.listed(registry, subject.digest)):
        return False
    for blob in (artefact.EMPTY, content):
        registry.upload(artefact.descriptor(blob), blob)
    if not registry.put_manifest(digest, manifest):
        entry = {"mediaType": MANIFEST, "digest": digest, "size": size, "artifactType": BUNDLE}
        referrers.add(registry, subject.digest, entry | {"annotations": annotations})
    return True


def sign(signed: SignedArtefact, signer: Signer) -> bytes:
    """Return the bundle with the signature of a key."""
    subjects = (bundle.Subject(signed.manifest.digest), bundle.Subject(signed.layer, signed.file))
    return signer.bundle(bundle.statement(subjects))


def stored(content: bytes, subject: Descriptor) -> bytes:
    """Return the manifest that attaches a bundle to an artefact."""
    return artefact.referring(BUNDLE, content, subject, {_CONTENT: "dsse-envelope", _PREDICATE: SIGNATURE})

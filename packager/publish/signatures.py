"""Attaches signatures to an artefact in a registry, and finds and judges those that are attached to one.

Each signature is written in both forms of cosign: as a bundle that refers to the artefact, and in the older tag. Flux
from 2.8 on looks for bundles first, and ignores the tag if there is one, so both are always written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.base.errors import ToolError, VerificationError
from packager.base.values import Value
from packager.publish import artefact, attachments, bundle, sigtag
from packager.publish.bundle import SIGNATURE, BundleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from packager.publish.keys import PublicKey
    from packager.publish.reference import PackageReference
    from packager.publish.referrers import Readable
    from packager.publish.registry import Repository
    from packager.publish.signer import Signer
    from packager.publish.upload import Descriptor

    Check = Callable[[PublicKey, bytes, bytes], bool]
    """Whether a key has made a signature (the second value) over some bytes (the third)."""

_MOST_READ = 16
_MOST_TAGGED = 100
_TRIES = 3


class Signature(Value, frozen=True):
    """A signature, and whether it can be trusted.

    Attributes:
        form: `bundle`, or `tag` for the older form.
        signer: The name of the trusted key that made the signature; None if another key made it.
        fingerprint: The fingerprint of this key; for another key, the fingerprint in the bundle; None without one.
        problem: The reason why the signature is refused, whichever key made it; None for a signature of the artefact.
        content: The bundle; empty for the older form.
    """

    form: str
    signer: str | None = None
    fingerprint: str | None = None
    problem: str | None = None
    content: bytes = b""

    @property
    def is_trusted(self) -> bool:
        """Whether a trusted key has signed this artefact."""
        return self.signer is not None and self.problem is None

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "form": self.form,
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


class Verifier(Value, frozen=True):
    """The keys that are trusted, and the way to check a signature."""

    keys: tuple[PublicKey, ...]
    check: Check

    def bundle(self, content: bytes, digest: str) -> Signature:
        """Return the signature in a bundle, if it is one of the artefact or file with this digest. Raises ToolError."""
        try:
            envelope = bundle.read(content)
            statement = bundle.read_statement(envelope.payload)
        except BundleError as error:
            return Signature("bundle", problem=str(error), content=content)
        key = self.key_of(envelope.signature, bundle.signed_bytes(envelope.payload))
        problem = None
        if statement.predicate_type != SIGNATURE:
            problem = f"it is not a signature, but a statement of the type {statement.predicate_type}"
        elif digest not in statement.digests:
            problem = f"it is of something else: expected {digest}, found {', '.join(statement.digests[:3]) or 'none'}"
        return Signature("bundle", *_name(key, envelope.hint), problem, content)

    def payload(self, content: bytes, signature: bytes, digest: str) -> Signature:
        """Return a signature of the older form. Raises ToolError."""
        try:
            signed = sigtag.signed_digest(content)
        except BundleError as error:
            return Signature("tag", problem=str(error))
        problem = None if signed == digest else f"it is of something else: expected {digest}, found {signed}"
        return Signature("tag", *_name(self.key_of(signature, content), None), problem)

    def key_of(self, signature: bytes, content: bytes) -> PublicKey | None:
        """Return the trusted key that has made a signature over some bytes; None without one. Raises ToolError."""
        return next((key for key in self.keys if self.check(key, signature, content)), None)


def _name(key: PublicKey | None, hint: str | None) -> tuple[str | None, str | None]:
    return (None, hint) if key is None else (key.name, key.fingerprint)


def find(registry: Readable, digest: str, verifier: Verifier) -> tuple[Signature, ...]:
    """Return the signatures of an artefact; the older tag is read only if no bundle is trusted.

    What is not valid is a signature with a problem: anyone who may push can attach anything.

    Args:
        registry: The repository.
        digest: The digest of the artefact.
        verifier: The keys, and the way to check signatures.

    Raises:
        VerificationError: The registry sends something else than it has promised.
        ToolError: The registry does not respond as it must, or signatures cannot be checked.
    """
    signatures = _bundles(registry, digest, verifier)
    is_decided = any(signature.is_trusted for signature in signatures) if verifier.keys else bool(signatures)
    return tuple(signatures if is_decided else [*signatures, *_tagged(registry, digest, verifier)])


def _bundles(registry: Readable, digest: str, verifier: Verifier) -> list[Signature]:
    listed = attachments.listed(registry, digest)
    signatures = []
    for entry in listed[:_MOST_READ]:
        try:
            signatures.append(verifier.bundle(attachments.content(registry, entry), digest))
        except BundleError as error:
            signatures.append(Signature("bundle", problem=str(error)))
    if len(listed) > _MOST_READ:
        signatures.append(Signature("bundle", problem=f"{len(listed) - _MOST_READ:,} more bundles were not read"))
    return signatures


def _tagged(registry: Readable, digest: str, verifier: Verifier) -> list[Signature]:
    present = registry.find_manifest(sigtag.tag(digest))
    if present is None:
        return []
    payloads: dict[Descriptor, bytes] = {}
    signatures = []
    try:
        layers = sigtag.layers(present[0])
    except BundleError as error:
        return [Signature("tag", problem=str(error))]
    for layer in layers[:_MOST_READ]:
        try:
            tagged = sigtag.signature(layer)
        except BundleError as error:
            signatures.append(Signature("tag", problem=str(error)))
            continue
        if tagged.payload not in payloads:
            payloads[tagged.payload] = registry.content(tagged.payload)
        signatures.append(verifier.payload(payloads[tagged.payload], tagged.signature, digest))
    if len(layers) > _MOST_READ:
        signatures.append(Signature("tag", problem=f"{len(layers) - _MOST_READ:,} more signatures were not read"))
    return signatures


class SignedArtefact(Value, frozen=True):
    """An artefact that is signed.

    Attributes:
        reference: The repository.
        manifest: The manifest, as a blob.
        file: The name of its layer.
        layer: The digest of its layer, which is signed too: so the file alone can be checked.
        created: The time of the signature as RFC 3339; None for none.
    """

    reference: PackageReference
    manifest: Descriptor
    file: str
    layer: str
    created: str | None = None


def attach(registry: Repository, signed: SignedArtefact, signers: Sequence[Signer]) -> bool:
    """Attach the signature of each key in both forms, and return whether anything was sent.

    Raises:
        VerificationError: The registry stores or sends something else than it must.
        ToolError: The registry does not respond as it must.
    """
    is_new = False
    for signer in signers:
        is_new |= attachments.attach(registry, signed.manifest, sign(signed, signer), signed.created)
    if signers:
        is_new |= _attach_tag(registry, signed, signers)
    return is_new


def sign(signed: SignedArtefact, signer: Signer) -> bytes:
    """Return the bundle with the signature of a key."""
    subjects = (bundle.Subject(signed.manifest.digest), bundle.Subject(signed.layer, signed.file))
    payload = bundle.statement(subjects)
    return signer.bundle(payload)


def _attach_tag(registry: Repository, signed: SignedArtefact, signers: Sequence[Signer]) -> bool:
    payload = sigtag.payload(signed.reference, signed.manifest.digest)
    entries = [sigtag.entry(payload, signer.sign(payload)) for signer in signers]
    tag = sigtag.tag(signed.manifest.digest)
    is_new = False
    for _ in range(_TRIES):
        present = _layers(registry, tag)
        missing = [entry for entry in entries if not _is_among(entry, present)]
        if not missing:
            return is_new
        if len(present) + len(missing) > _MOST_TAGGED:
            raise ToolError(f"{tag} has {len(present):,} signatures already; nothing was added")
        manifest, config = sigtag.manifest([*present, *missing])
        for blob in (payload, config):
            registry.upload(artefact.descriptor(blob), blob)
        registry.put_manifest(tag, manifest)
        is_new = True
    if not all(_is_among(entry, _layers(registry, tag)) for entry in entries):
        raise ToolError(f"the tag {tag} is changed by other programs again and again", hint="push again")
    return is_new


def _is_among(entry: dict[str, Any], present: Iterable[dict[str, Any]]) -> bool:
    return any(
        (entry["digest"], entry["annotations"]) == (other.get("digest"), other.get("annotations")) for other in present
    )


def _layers(registry: Repository, tag: str) -> list[dict[str, Any]]:
    """Return the layers that the older tag has. Raises VerificationError if it is not one of signatures."""
    present = registry.find_manifest(tag)
    if present is None:
        return []
    try:
        layers = sigtag.layers(present[0])
        for layer in layers:
            sigtag.signature(layer)
    except BundleError as error:
        raise VerificationError(f"{tag} has something else than signatures: {error}") from None
    return layers

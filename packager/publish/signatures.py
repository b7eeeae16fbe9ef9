"""Attaches signatures to an artefact in a registry, and finds and judges those that are attached to one.

Those of an archive on disk are in the file beside it.

A signature is a bundle, as cosign 3 and Flux read them: the only layer of a manifest that refers to the artefact. Small
ones are also in the manifest itself (the field `data` of OCI image-spec 1.1), so one request reads both.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from packager.base import jsonio, plainfiles
from packager.base.errors import VerificationError, missing_extra, unreadable
from packager.base.values import Value
from packager.base.web import digest_of
from packager.publish import artefact, dsse, referrers
from packager.publish.artefact import EMPTY_CONFIG
from packager.publish.dsse import BUNDLE, BUNDLE_BYTES, SIGNATURE, BundleError
from packager.publish.keys import Signature
from packager.publish.reference import is_digest
from packager.publish.registry import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from packager.base.runner import Tell
    from packager.publish.keys import PublicKey, Trust
    from packager.publish.referrers import Readable
    from packager.publish.registry import Repository
    from packager.publish.signer import Signer
    from packager.publish.upload import Descriptor

_PREDICATE = "dev.sigstore.bundle.predicateType"
_CONTENT = "dev.sigstore.bundle.content"
_MANIFEST_BYTES = 2 * BUNDLE_BYTES  # of a manifest that contains its bundle
_MOST_READ = 16
_ENDING = ".sigstore.json"
_MOST_BUNDLES = 16


class SignedArtefact(Value, frozen=True):
    """An artefact that is signed."""

    manifest: Descriptor
    file: str  # the name of its layer
    layer: str  # the digest of its layer, which is signed too: so the file alone can be checked
    created: str | None = None  # the time of the signature as RFC 3339


def judge(content: bytes, digest: str, keys: Sequence[PublicKey]) -> Signature:
    """Return the signature in a bundle, which must be one of the artefact or file with this digest."""
    try:
        envelope = dsse.read(content)
        statement = dsse.read_statement(envelope.payload)
    except BundleError as error:
        return Signature(problem=str(error), content=content)
    key = _key_of(envelope.signature, dsse.signed_bytes(envelope.payload), keys)
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
    embedded = dsse.decoded(jsonio.read_object(present[0])["layers"][0].get("data"))
    if not embedded:
        return registry.content(layer)
    if artefact.descriptor(embedded) != layer:
        raise BundleError(f"{name} contains another bundle than it describes")
    return embedded


def attach(registry: Repository, signed: SignedArtefact, signers: Sequence[Signer]) -> bool:
    """Attach the signature of each key, and return whether anything was sent."""
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
    subjects = (dsse.Subject(signed.manifest.digest), dsse.Subject(signed.layer, signed.file))
    return signer.bundle(dsse.statement(subjects))


def stored(content: bytes, subject: Descriptor) -> bytes:
    """Return the manifest that attaches a bundle to an artefact."""
    return artefact.referring(BUNDLE, content, subject, {_CONTENT: "dsse-envelope", _PREDICATE: SIGNATURE})


def beside(path: Path) -> Path:
    """Return the file beside an archive that has its bundles, one a line."""
    return path.with_name(f"{path.name}{_ENDING}")


def lines(signatures: Sequence[Signature]) -> bytes:
    """Return the content of the file for those bundles that are about the package."""
    bundles = [one.content for one in signatures if one.content and one.problem is None]
    return b"".join(content.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n" for content in bundles)


def bundles_beside(path: Path) -> list[bytes]:
    """Return the bundles in the file beside an archive; none without it. Raises ToolError."""
    file = beside(path)
    try:
        with plainfiles.open_linked(file) as stream:
            content = stream.read(_MOST_BUNDLES * BUNDLE_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(file, error) from None
    return [line for line in content.splitlines()[:_MOST_BUNDLES] if line.strip()]


def check_file(path: Path, trust: Trust, *, tell: Tell) -> None:
    """Check the signatures of a package on disk, which are in the file beside it; a folder cannot be signed."""
    if not trust.is_asked:
        return
    if path.is_dir():
        if trust.is_required:
            hint = "mlpack pull --extract checks the signature, and unpacks what is signed"
            raise VerificationError(f"{path} is a folder, and only archives are signed", hint=hint)
        return
    file = beside(path)
    try:
        digest = f"sha256:{digest_of(path)}"
    except FileNotFoundError:
        return  # there is no such package, as is reported when it is opened
    except OSError as error:
        raise unreadable(path, error) from None
    signatures = [judge(line, digest, trust.keys) for line in bundles_beside(path)]
    try:
        trust.require(signatures, str(path), tell)
    except VerificationError as error:
        if signatures:
            raise
        raise VerificationError(
            str(error), hint=f"expected its signatures in {file}, as mlpack pull writes them"
        ) from None

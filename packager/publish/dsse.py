"""Makes and reads Sigstore bundles v0.3: a statement of in-toto in a DSSE envelope, signed by a key.

Sources: in-toto/attestation, spec/v1; secure-systems-lab/dsse, protocol.md; sigstore/cosign, specs/BUNDLE_SPEC.md.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from packager.base import jsonio
from packager.base.problems import show
from packager.base.values import Value
from packager.publish.keys import is_fingerprint
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Iterable

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"
"""The predicate of a statement that says nothing but that the subject is signed."""

BUNDLE_BYTES = 256 << 10
"""The most bytes of a bundle."""

_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_MOST_SUBJECTS = 100
_SIGNATURE_BYTES = 2048


class BundleError(ValueError):
    """A bundle or a statement that is not accepted."""


class Subject(Value, frozen=True):
    """An artefact or a file that a statement is about."""

    digest: str
    name: str = ""  # the name; empty without one


class Statement(Value, frozen=True):
    """A statement: the digests of its subjects, and the type of its predicate."""

    digests: tuple[str, ...]
    predicate_type: str


class Envelope(Value, frozen=True):
    """A signed statement."""

    payload: bytes  # the bytes of the statement
    signature: bytes  # the signature over `signed_bytes(payload)`
    hint: str | None  # the fingerprint of the key as the bundle claims it; None if it names no key


def statement(subjects: Iterable[Subject]) -> bytes:
    """Return the bytes of a statement that the subjects are signed."""
    entries = [
        {
            **({"name": subject.name} if subject.name else {}),
            "digest": {"sha256": subject.digest.removeprefix("sha256:")},
        }
        for subject in subjects
    ]
    return jsonio.compact_bytes({"_type": _STATEMENT, "subject": entries, "predicateType": SIGNATURE, "predicate": {}})


def signed_bytes(payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding of a statement."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def compose(payload: bytes, signature: bytes, fingerprint: str) -> bytes:
    """Return the bundle of a signed statement."""
    return jsonio.compact_bytes(
        {
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": fingerprint}},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": _PAYLOAD,
                "signatures": [{"sig": base64.b64encode(signature).decode()}],
            },
        }
    )


def read(content: bytes) -> Envelope:
    """Return the envelope in a bundle from others. Raises BundleError."""
    if len(content) > BUNDLE_BYTES:
        raise BundleError(f"expected at most {BUNDLE_BYTES >> 10} KiB, found {len(content):,} bytes")
    bundle = read_object(content, "a bundle")
    if bundle.get("mediaType") != BUNDLE:
        raise BundleError(f"expected a bundle of the type {BUNDLE}, found {show(bundle.get('mediaType'))}")
    envelope = bundle.get("dsseEnvelope")
    if not isinstance(envelope, dict):
        raise BundleError("expected a bundle with a DSSE envelope")
    if envelope.get("payloadType") != _PAYLOAD:
        raise BundleError(f"expected a payload of the type {_PAYLOAD}, found {show(envelope.get('payloadType'))}")
    signatures = envelope.get("signatures")
    if not isinstance(signatures, list) or len(signatures) != 1 or not isinstance(signatures[0], dict):
        raise BundleError("expected one signature in the envelope")
    signature = decoded(signatures[0].get("sig"))
    if not 0 < len(signature) <= _SIGNATURE_BYTES:
        raise BundleError(f"expected a signature of at most {_SIGNATURE_BYTES:,} bytes")
    material = bundle.get("verificationMaterial")
    key = material.get("publicKey") if isinstance(material, dict) else None
    hint = key.get("hint") if isinstance(key, dict) else None
    return Envelope(decoded(envelope.get("payload")), signature, hint if is_fingerprint(hint) else None)


def read_statement(payload: bytes) -> Statement:
    """Return the statement in an envelope from others. Raises BundleError."""
    value = read_object(payload, "a statement")
    if value.get("_type") != _STATEMENT:
        raise BundleError(f"expected a statement of the type {_STATEMENT}, found {show(value.get('_type'))}")
    subjects, kind = value.get("subject"), value.get("predicateType")
    if not isinstance(subjects, list) or not 0 < len(subjects) <= _MOST_SUBJECTS:
        raise BundleError(f"expected 1 to {_MOST_SUBJECTS} subjects")
    if not isinstance(kind, str) or not kind.isprintable():
        raise BundleError("expected the type of a predicate")
    digests = [f"sha256:{_sha256(subject)}" for subject in subjects]
    return Statement(tuple(digest for digest in digests if is_digest(digest)), kind)


def decoded(text: object) -> bytes:
    """Return the bytes in base64. Raises BundleError."""
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raise BundleError("expected base64") from None


def _sha256(subject: Any) -> str:
    digest = subject.get("digest") if isinstance(subject, dict) else None
    return str(digest.get("sha256")) if isinstance(digest, dict) else ""


def read_object(content: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in a text from others, which messages call `what`. Raises BundleError."""
    try:
        return jsonio.read_object(content)
    except jsonio.JsonError as error:
        raise BundleError(f"{what} is not valid: {error}") from None

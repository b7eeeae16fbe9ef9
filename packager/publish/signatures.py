"""Attaches signatures to an artefact in a registry, and finds and judges those that are attached to one.

Those of an archive on disk are in the file beside it.

A signature is a Sigstore bundle v0.3, as cosign 3 and Flux read them: a statement of in-toto in a DSSE envelope, the
only layer of a manifest that refers to the artefact. Sources: in-toto/attestation, spec/v1; secure-systems-lab/dsse,
protocol.md; sigstore/cosign, specs/BUNDLE_SPEC.md.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING, Any, Literal

from packager.base import jsonio
from packager.base.errors import UsageError, VerificationError, missing_extra, unreadable
from packager.base.problems import show
from packager.base.values import FieldsError, Value, field, from_json
from packager.base.web import digest_of
from packager.publish import artefact
from packager.publish.artefact import descriptor
from packager.publish.reference import is_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from packager.base.process import Tell
    from packager.publish.artefact import Artefact, Descriptor, Source
    from packager.publish.keys import PublicKey, Signer
    from packager.publish.registry import Repository

BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGNATURE = "https://sigstore.dev/cosign/sign/v1"
"""The predicate of a statement that says nothing but that the subject is signed."""

_PAYLOAD = "application/vnd.in-toto+json"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "dev.sigstore.bundle.predicateType"
_BUNDLE_BYTES = 256 << 10
_MOST_READ = 16  # bundles of an artefact
_FINGERPRINT = re.compile("[A-Za-z0-9+/]{43}=")


class _Hint(Value, frozen=True):
    hint: str = ""  # the fingerprint of the key, as the bundle claims it


class _Material(Value, frozen=True, rename="camel"):
    public_key: _Hint = _Hint()


class _Signature(Value, frozen=True):
    sig: bytes


class _Envelope(Value, frozen=True, rename="camel"):
    payload: bytes  # the statement
    payload_type: Literal["application/vnd.in-toto+json"]
    signatures: tuple[_Signature]


class _Bundle(Value, frozen=True, rename="camel"):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"]
    dsse_envelope: _Envelope
    verification_material: _Material = _Material()


class _Subject(Value, frozen=True):
    digest: Mapping[str, str] = {}


class _Statement(Value, frozen=True, rename="camel"):
    subject: list[_Subject]
    predicate_type: str
    kind: Literal["https://in-toto.io/Statement/v1"] = field(name="_type")


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


def statement(subjects: Iterable[tuple[str, str]]) -> bytes:
    """Return the bytes of a statement that the subjects, a digest and a name or an empty text each, are signed."""
    entries = [
        {**({"name": name} if name else {}), "digest": {"sha256": digest.removeprefix("sha256:")}}
        for digest, name in subjects
    ]
    return jsonio.compact_bytes({"_type": _STATEMENT, "subject": entries, "predicateType": SIGNATURE, "predicate": {}})


def signed_bytes(payload: bytes) -> bytes:
    """Return the bytes that are signed: DSSE's pre-authentication encoding of a statement."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(payload), payload)


def bundle(payload: bytes, signer: Signer) -> bytes:
    """Return the bundle of a statement with its signature by a key."""
    return jsonio.compact_bytes(
        {
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": signer.public.fingerprint}},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode(),
                "payloadType": _PAYLOAD,
                "signatures": [{"sig": base64.b64encode(signer.sign(signed_bytes(payload))).decode()}],
            },
        }
    )


def judge(content: bytes, digest: str, keys: Sequence[PublicKey]) -> Signature:
    """Return the signature in a bundle, which must be one of the artefact or file with this digest."""
    try:
        read = from_json(content, _Bundle)
        payload, signature = read.dsse_envelope.payload, read.dsse_envelope.signatures[0].sig
        signed = from_json(payload, _Statement)
    except FieldsError as error:
        return Signature(problem=f"it is not a signature in a bundle: {error}", content=content)
    digests = [f"sha256:{subject.digest.get('sha256')}" for subject in signed.subject]
    key = next((key for key in keys if key.has_signed(signed_bytes(payload), signature)), None)
    problem = None
    if signed.predicate_type != SIGNATURE:
        problem = f"it is not a signature, but a statement of the type {show(signed.predicate_type)}"
    elif digest not in digests:
        found = ", ".join(filter(is_digest, digests[:3])) or "none"
        problem = f"it is of something else: expected {digest}, found {found}"
    hint = read.verification_material.public_key.hint
    if key is None:
        return Signature(None, hint if _FINGERPRINT.fullmatch(hint) else None, problem, content)
    return Signature(key.name, key.fingerprint, problem, content)


def find(source: Source, digest: str, keys: Sequence[PublicKey]) -> tuple[Signature, ...]:
    """Return the signatures of an artefact.

    What is not valid is a signature with a problem: anyone who may push can attach anything.
    """
    listed = [entry for entry in source.referrers(digest) if _is_signature(entry)]
    signatures = []
    for entry in listed[:_MOST_READ]:
        try:
            signatures.append(judge(_read(source, entry), digest, keys))
        except ValueError as error:
            signatures.append(Signature(problem=str(error)))
    if len(listed) > _MOST_READ:
        signatures.append(Signature(problem=f"{len(listed) - _MOST_READ:,} more bundles were not read"))
    return tuple(signatures)


def _is_signature(entry: Mapping[str, Any]) -> bool:
    """Whether a manifest is listed as a signature; some registries list the type of its config as its own."""
    kind, annotations = entry.get("artifactType"), entry.get("annotations")
    claimed = annotations.get(_PREDICATE) if isinstance(annotations, dict) else None
    return claimed == SIGNATURE if kind == artefact.EMPTY_CONFIG else kind == BUNDLE and claimed in (SIGNATURE, None)


def _read(source: Source, entry: Mapping[str, Any]) -> bytes:
    """Return a bundle. Raises ValueError if it is not valid, and the errors of the registry."""
    name = entry.get("digest")
    present = source.find_manifest(name) if is_digest(name) else None
    if present is None:
        raise ValueError(f"{show(name)} not found")
    try:
        layer = artefact.only_layer(artefact.read_manifest(present[0], str(name)), str(name), BUNDLE).blob
    except VerificationError as error:
        raise ValueError(str(error)) from None
    if layer.size > _BUNDLE_BYTES:
        raise ValueError(f"expected at most {_BUNDLE_BYTES >> 10} KiB, found {layer.size:,} bytes")
    return source.content(layer)


def attach(
    registry: Repository, made: Artefact, signers: Sequence[Signer], created: int | None = None
) -> tuple[str, ...]:
    """Attach the signature of each key, and return the digests of what is new; `created` is in seconds since 1970."""
    sent: tuple[str, ...] = ()
    for signer in signers:
        content = sign(made, signer)
        blobs: dict[Descriptor, tuple[bytes | Path, int]] = {
            descriptor(blob): (blob, 0) for blob in (artefact.EMPTY, content)
        }
        sent += registry.store(blobs, [referring(content, descriptor(made.manifest), created)])
    return sent


def sign(made: Artefact, signer: Signer) -> bytes:
    """Return the bundle with the signature of a key; the layer is signed too, so that the file alone can be checked."""
    return bundle(statement([(made.digest, ""), (made.layer.blob.digest, made.layer.name)]), signer)


def referring(content: bytes, subject: Descriptor, created: int | None = None) -> bytes:
    """Return the manifest that attaches a bundle to an artefact."""
    annotations = {"dev.sigstore.bundle.content": "dsse-envelope", _PREDICATE: SIGNATURE}
    if created is not None:
        annotations[artefact.CREATED] = artefact.time_text(created)
    return artefact.referring(BUNDLE, content, subject, annotations)


class Trust(Value, frozen=True):
    """The keys that are trusted."""

    keys: tuple[PublicKey, ...]
    is_required: bool  # whether a package needs a signature by one of them

    @property
    def is_asked(self) -> bool:
        """Whether signatures are of interest."""
        return self.is_required or bool(self.keys)

    def require(
        self,
        signatures: Sequence[Signature],
        shown: str,
        tell: Tell,
        hint: str = "its publisher signs it with `mlpack push --sign-key KEY`",
    ) -> None:
        """Report signatures, and refuse a package without one by a trusted key; `hint` is for one without any."""
        for signature in signatures:
            tell(f"signature {signature}")
        if self.is_required and not any(signature.is_trusted for signature in signatures):
            names = " or ".join(key.name for key in self.keys)
            raise VerificationError(f"{shown} is not signed by {names}", hint=None if signatures else hint)


def trust(keys: Sequence[Path], usual: Sequence[Path], *, is_required: bool) -> Trust:
    """Return the keys that are trusted: those of `keys`, or else of `usual`, files and folders with files."""
    paths = list(keys)
    for path in usual if not keys else ():
        paths += sorted(path.glob("*.pub")) if path.is_dir() else [path]
    is_required = is_required or bool(keys)
    if is_required and not paths:
        hint = "--key FILE names a public key; so do MLPACK_KEYS and files in ~/.config/mlpack/keys"
        raise UsageError("--require-signature needs a public key to trust", hint=hint)
    if not paths:
        return Trust((), is_required)
    try:
        from packager.publish.keys import key_content, public  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise missing_extra("checking a signature", error, "sign") from None
    trusted = [public(key_content(path), path.name.removesuffix(".pub"), str(path)) for path in paths]
    return Trust(tuple(trusted), is_required)


def beside(path: Path) -> Path:
    """Return the file beside an archive that has its bundles, one a line."""
    return path.with_name(f"{path.name}.sigstore.json")


def lines(signatures: Sequence[Signature]) -> bytes:
    """Return the content of the file for those bundles that are about the package."""
    bundles = [one.content for one in signatures if one.content and one.problem is None]
    return b"".join(content.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n" for content in bundles)


def bundles_beside(path: Path) -> list[bytes]:
    """Return the bundles in the file beside an archive; none without it. Raises ToolError."""
    file = beside(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_READ * _BUNDLE_BYTES)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise unreadable(file, error) from None
    return [line for line in content.splitlines()[:_MOST_READ] if line.strip()]


def check_file(path: Path, trust: Trust, *, tell: Tell) -> None:
    """Check the signatures of a package on disk, which are in the file beside it; a folder cannot be signed.

    A package that is missing is reported when it is opened.
    """
    if not trust.is_asked or not path.exists():
        return
    if path.is_dir():
        if trust.is_required:
            hint = "mlpack pull --extract checks the signature, and unpacks what is signed"
            raise VerificationError(f"{path} is a folder, and only archives are signed", hint=hint)
        return
    try:
        digest = f"sha256:{digest_of(path)}"
    except OSError as error:
        raise unreadable(path, error) from None
    signatures = [judge(line, digest, trust.keys) for line in bundles_beside(path)]
    trust.require(signatures, str(path), tell, f"expected its signatures in {beside(path)}, as mlpack pull writes them")

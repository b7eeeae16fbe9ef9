"""Reads public keys, and the files that private keys are in: without a cryptographic library.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from packager.base.errors import UsageError, VerificationError, unreadable
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.runner import Tell

KEY_BYTES = 16 << 10
"""The most bytes of the file of a key."""

_PUBLIC = re.compile(rb"\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*")
_PRIVATE = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")

# How the DER of a SubjectPublicKeyInfo begins (RFC 5480, RFC 8410, RFC 8017).
_P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
_ED25519 = bytes.fromhex("302a300506032b6570032100")
_RSA = re.compile(rb"\x30\x82..\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00\x03\x82", re.DOTALL)
_P256_BYTES = 91
_ED25519_BYTES = 44
_RSA_BYTES = range(294, 1063)  # from 2,048 to 8,192 bits
_LINE = 64
_MOST_KEYS = 100


class KeyKind(StrEnum):
    """The kinds of keys: only the first one signs."""

    P256 = "ECDSA P-256"
    ED25519 = "Ed25519"
    RSA = "RSA"


class PublicKey(Value, frozen=True):
    """A public key."""

    name: str  # the name of its owner: of the file, without `.pub`
    der: bytes  # the key as a SubjectPublicKeyInfo
    kind: KeyKind

    @property
    def fingerprint(self) -> str:
        """The digest of the key in base64, as the hint of a Sigstore bundle."""
        return base64.b64encode(hashlib.sha256(self.der).digest()).decode()

    @property
    def pem(self) -> str:
        """The text of the file of the key."""
        text = base64.b64encode(self.der).decode()
        lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
        return "\n".join(["-----BEGIN PUBLIC KEY-----", *lines, "-----END PUBLIC KEY-----", ""])


def public(content: bytes, name: str, shown: str) -> PublicKey:
    """Return a public key."""
    match = _PUBLIC.fullmatch(content)
    try:
        der = base64.b64decode(b"".join(match[1].split()), validate=True) if match else b""
    except binascii.Error:
        der = b""
    kind = _kind(der)
    if kind is None:
        hint = "that is a private key; name its public key" if _PRIVATE.search(content) else None
        message = f"{shown}: expected one public key in PEM: ECDSA P-256, Ed25519, or RSA of 2,048 to 8,192 bits"
        raise UsageError(message, hint=hint)
    return PublicKey(name, der, kind)


def _kind(der: bytes) -> KeyKind | None:
    if len(der) == _P256_BYTES and der.startswith(_P256):
        return KeyKind.P256
    if len(der) == _ED25519_BYTES and der.startswith(_ED25519):
        return KeyKind.ED25519
    return KeyKind.RSA if len(der) in _RSA_BYTES and _RSA.match(der) else None


def is_fingerprint(text: object) -> bool:
    """Whether a value can be the fingerprint of a key."""
    return isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9+/]{43}=", text) is not None


def key_content(path: Path) -> bytes:
    """Return the content of the file of a key. Raises UsageError or ToolError."""
    try:
        with path.open("rb") as stream:
            content = stream.read(KEY_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except OSError as error:
        raise unreadable(path, error) from None
    if len(content) > KEY_BYTES:
        raise UsageError(f"{path}: expected a key, found more than {KEY_BYTES >> 10} KiB")
    return content


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


class TrustRequest(Value, frozen=True):
    """The keys that a user trusts."""

    keys: tuple[Path, ...]  # the files of public keys that the command names; if there are any, only these count
    usual: tuple[Path, ...]  # the files, and the folders with files, that count otherwise
    is_required: bool  # whether a package needs a signature, also if the command names no key


class Trust(Value, frozen=True):
    """The keys that are trusted."""

    keys: tuple[PublicKey, ...]
    is_required: bool  # whether a package needs a signature by one of them

    @property
    def is_asked(self) -> bool:
        """Whether signatures are of interest."""
        return self.is_required or bool(self.keys)

    def require(self, signatures: Sequence[Signature], shown: str, tell: Tell) -> None:
        """Report signatures, and refuse a package without one by a trusted key.

        Raises:
            VerificationError: A signature is required, and none is by a trusted key.
        """
        for signature in signatures:
            tell(f"signature {signature}")
        if self.is_required and not any(signature.is_trusted for signature in signatures):
            names = " or ".join(key.name for key in self.keys)
            hint = None if signatures else "its publisher signs it with `mlpack push --sign-key KEY`"
            raise VerificationError(f"{shown} is not signed by {names}", hint=hint)


def trust(request: TrustRequest) -> Trust:
    """Return the keys that are trusted."""
    paths = list(request.keys)
    if not paths:
        for path in request.usual:
            paths += sorted(path.glob("*.pub")) if path.is_dir() else [path]
    if len(paths) > _MOST_KEYS:
        raise UsageError(f"expected at most {_MOST_KEYS} public keys, found {len(paths):,}")
    is_required = request.is_required or bool(request.keys)
    if is_required and not paths:
        hint = "--key FILE names a public key; so do MLPACK_KEYS and files in ~/.config/mlpack/keys"
        raise UsageError("--require-signature needs a public key to trust", hint=hint)
    trusted = [public(key_content(path), path.name.removesuffix(".pub"), str(path)) for path in paths]
    return Trust(tuple(trusted), is_required)

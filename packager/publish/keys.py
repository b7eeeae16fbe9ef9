"""Reads public keys, and the files that private keys are in: without a cryptographic library.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from packager.base.errors import UsageError, unreadable
from packager.base.values import Value

if TYPE_CHECKING:
    from pathlib import Path

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

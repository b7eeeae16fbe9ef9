"""Makes and reads keys, signs and verifies with the library `cryptography`, which the extra `sign` brings.

Signatures are deterministic (RFC 6979): who signs the same again has the same bytes.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from packager.base import atomic
from packager.base.errors import UsageError, unreadable
from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from packager.base.process import Tell

_SHA256 = SHA256()
_EXISTS = "choose another name: a key is never replaced"


class PublicKey(Value, frozen=True):
    """A public key, ECDSA P-256."""

    name: str  # the name of its owner: of the file, without `.pub`
    key: ec.EllipticCurvePublicKey

    @property
    def fingerprint(self) -> str:
        """The digest of the key in base64, as the hint of a Sigstore bundle."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(der).digest()).decode()

    @property
    def pem(self) -> str:
        """The text of the file of the key."""
        return str(self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())

    def has_signed(self, content: bytes, signature: bytes) -> bool:
        """Whether the key has made a signature over some bytes."""
        try:
            self.key.verify(signature, content, ec.ECDSA(_SHA256))
        except (InvalidSignature, ValueError):
            return False
        return True


class Signer:
    """A private key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, name: str) -> None:
        self._key = key
        self.public = PublicKey(name, key.public_key())

    def sign(self, content: bytes) -> bytes:
        """Return the signature over some bytes, in DER."""
        return self._key.sign(content, ec.ECDSA(_SHA256, deterministic_signing=True))

    def pem(self, password: bytes | None) -> bytes:
        """Return the private key as PKCS#8 in PEM, encrypted unless `password` is None."""
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def public(content: bytes, name: str, shown: str) -> PublicKey:
    """Return the public key in a file, which messages call `shown`. Raises UsageError for another content."""
    try:
        key = load_pem_public_key(content) if content.count(b"-----BEGIN ") == 1 else None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        hint = "that is a private key; name its public key" if b"PRIVATE KEY-----" in content else None
        raise UsageError(f"{shown}: expected one public key in PEM, ECDSA P-256", hint=hint)
    return PublicKey(name, key)


def read(content: bytes, name: str, shown: str, password: Callable[[], bytes]) -> Signer:
    """Return the private key in a file, which messages call `shown`; `password` is asked if it is encrypted."""
    try:
        key = load_pem_private_key(content, None)
    except TypeError:  # it is encrypted
        try:
            key = load_pem_private_key(content, password())
        except (TypeError, ValueError, UnsupportedAlgorithm):
            raise UsageError(f"{shown}: the password is wrong, or the file is damaged") from None
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(
            f"{shown}: expected a private key in PEM: ECDSA P-256", hint="`mlpack key new NAME` makes one"
        ) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise UsageError(f"{shown}: only ECDSA P-256 keys sign: all that verify packages read them")
    return Signer(key, name)


class NewKey(Value, frozen=True):
    """A new key pair."""

    private: Path  # the file with the private key, which only its owner can read
    public: Path  # the file with the public key
    key: PublicKey
    is_encrypted: bool  # whether the private key needs a password

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "private": str(self.private),
            "public": str(self.public),
            "kind": "ECDSA P-256",
            "fingerprint": self.key.fingerprint,
            "encrypted": self.is_encrypted,
        }


def new_key(path: Path, password: Callable[[], bytes | None]) -> NewKey:
    """Write a new key pair, PATH.key and PATH.pub; `password` returns None to leave the private key unencrypted."""
    private_file, public_file = (path.with_name(f"{path.name}{ending}") for ending in (".key", ".pub"))
    with (
        atomic.file(public_file, exists_hint=_EXISTS) as public_stream,
        atomic.file(private_file, exists_hint=_EXISTS) as private_stream,
    ):
        secret = password()
        if secret == b"":
            raise UsageError("the password is empty", hint="--no-password leaves the key unencrypted")
        pair = Signer(ec.generate_private_key(ec.SECP256R1()), path.name)
        public_stream.write(pair.public.pem.encode())
        os.fchmod(private_stream.fileno(), 0o600)
        private_stream.write(pair.pem(secret))
    return NewKey(private_file, public_file, pair.public, secret is not None)


def signers(paths: Sequence[Path], password: Callable[[Path], bytes], tell: Tell) -> tuple[Signer, ...]:
    """Return the private keys in files, each once."""
    found: dict[str, Signer] = {}
    for path in paths:
        content = key_content(path)
        if path.stat().st_mode & 0o077:
            tell(f"note: other users can read {path}: chmod 600 {path}")
        signer = read(content, path.stem, str(path), lambda path=path: password(path))  # type: ignore[misc]
        found.setdefault(signer.public.fingerprint, signer)
    return tuple(found.values())


def key_content(path: Path) -> bytes:
    """Return the content of the file of a key. Raises UsageError or ToolError."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist") from None
    except OSError as error:
        raise unreadable(path, error) from None

"""Makes keys, signs and verifies with the library `cryptography`, which the extra `sign` brings.

Signatures are deterministic (RFC 6979): who signs the same again has the same bytes.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_public_key,
    load_pem_private_key,
)

from packager.base import atomic
from packager.base.errors import ToolError, UsageError
from packager.base.paths import exists
from packager.base.values import Value
from packager.publish import dsse, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from packager.base.runner import Tell
    from packager.publish.keys import PublicKey

_SHA256 = SHA256()
_EXISTS = "choose another name: a key is never replaced"
_MODE = 0o600


class Signer:
    """A private key."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, name: str) -> None:
        self._key = key
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.public: PublicKey = keys.public(pem, name, name)  # the public key

    def sign(self, content: bytes) -> bytes:
        """Return the signature over some bytes, in DER."""
        return self._key.sign(content, ec.ECDSA(_SHA256, deterministic_signing=True))

    def bundle(self, payload: bytes) -> bytes:
        """Return the bundle of a statement with the signature."""
        return dsse.compose(payload, self.sign(dsse.signed_bytes(payload)), self.public.fingerprint)

    def pem(self, password: bytes | None) -> bytes:
        """Return the private key as PKCS#8 in PEM, encrypted unless `password` is None."""
        encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def new(name: str) -> Signer:
    """Return a new key."""
    return Signer(ec.generate_private_key(ec.SECP256R1()), name)


def read(content: bytes, name: str, shown: str, password: Callable[[], bytes]) -> Signer:
    """Return the private key in a file.

    Raises:
        UsageError: The file has no key that signs, or the password is wrong.
    """
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


def is_valid(key: PublicKey, signature: bytes, content: bytes) -> bool:
    """Whether a key has made a signature over some bytes."""
    try:
        loaded = load_der_public_key(key.der)
        match loaded:
            case ec.EllipticCurvePublicKey():
                loaded.verify(signature, content, ec.ECDSA(_SHA256))
            case ed25519.Ed25519PublicKey():
                loaded.verify(signature, content)
            case rsa.RSAPublicKey():
                loaded.verify(signature, content, padding.PKCS1v15(), _SHA256)
            case _:
                return False
    except (InvalidSignature, ValueError, UnsupportedAlgorithm):
        return False
    return True


class NewKey(Value, frozen=True):
    """A new key pair."""

    private: Path  # the file with the private key, which only its owner can read
    public: Path  # the file with the public key
    key: PublicKey  # the public key
    is_encrypted: bool  # whether the private key needs a password

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "private": str(self.private),
            "public": str(self.public),
            "kind": str(self.key.kind),
            "fingerprint": self.key.fingerprint,
            "encrypted": self.is_encrypted,
        }


def new_key(path: Path, password: Callable[[], bytes | None]) -> NewKey:
    """Write a new key pair: PATH.key and PATH.pub.

    Args:
        path: The path without an ending.
        password: Returns the password for the private key; None leaves it unencrypted.
    """
    private, public = (path.with_name(f"{path.name}{ending}") for ending in (".key", ".pub"))
    for file in (private, public):
        if exists(file):
            raise UsageError(f"{file} already exists and was left unchanged", hint=_EXISTS)
    secret = password()
    if secret == b"":
        raise UsageError("the password is empty", hint="--no-password leaves the key unencrypted")
    pair = new(path.name)
    with atomic.file(public, exists_hint=_EXISTS) as public_stream:
        public_stream.write(pair.public.pem.encode())
        with atomic.file(private, exists_hint=_EXISTS) as stream:
            os.fchmod(stream.fileno(), _MODE)
            stream.write(pair.pem(secret))
    return NewKey(private, public, pair.public, secret is not None)


def signers(paths: Sequence[Path], password: Callable[[Path], bytes], tell: Tell) -> tuple[Signer, ...]:
    """Return the private keys in files."""
    keys_read = [read(_content(path, tell), path.stem, str(path), lambda path=path: password(path)) for path in paths]  # type: ignore[misc]
    return tuple({key.public.der: key for key in keys_read}.values())


def _content(path: Path, tell: Tell) -> bytes:
    content = keys.key_content(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ToolError(f"{path} cannot be read") from error
    if mode & 0o077:
        tell(f"note: other users can read {path}: chmod 600 {path}")
    return content

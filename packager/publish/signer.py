"""Makes keys, signs and verifies with the library `cryptography`, which the extra `sign` brings.

Signatures are deterministic (RFC 6979): who signs the same again has the same bytes.

Tests: publish/test_signatures.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

from packager.base.errors import UsageError
from packager.publish import dsse, keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from packager.publish.keys import PublicKey

_SHA256 = SHA256()


class Signer:
    """A private key.

    Attributes:
        public: The public key.
    """

    def __init__(self, key: ec.EllipticCurvePrivateKey, name: str) -> None:
        self._key = key
        pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        self.public: PublicKey = keys.public(pem, name, name)

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

    Args:
        content: The content of the file.
        name: The name of the owner.
        shown: The file, for messages.
        password: Returns the password; it is called only for an encrypted key.

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

"""Makes key pairs, and reads the private keys that sign packages.

Tests: cli/test_key.py.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from packager.base import atomic
from packager.base.errors import ToolError, UsageError, missing_extra, unreadable
from packager.base.paths import exists
from packager.base.values import Value
from packager.publish.keys import KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from packager.base.progress import Tell
    from packager.publish.keys import PublicKey
    from packager.publish.signer import Signer

_EXISTS = "choose another name: a key is never replaced"
_MODE = 0o600


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

    Raises:
        UsageError: One of the files exists, or the password is empty.
        ToolError: A file cannot be written, or the extra `sign` is missing.
    """
    try:
        from packager.publish import signer  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise missing_extra("a key pair", error, "sign") from None
    private, public = (path.with_name(f"{path.name}{ending}") for ending in (".key", ".pub"))
    for file in (private, public):
        if exists(file):
            raise UsageError(f"{file} already exists and was left unchanged", hint=_EXISTS)
    secret = password()
    if secret == b"":
        raise UsageError("the password is empty", hint="--no-password leaves the key unencrypted")
    pair = signer.new(path.name)
    with atomic.file(public, exists_hint=_EXISTS) as public_stream:
        public_stream.write(pair.public.pem.encode())
        with atomic.file(private, exists_hint=_EXISTS) as stream:
            os.fchmod(stream.fileno(), _MODE)
            stream.write(pair.pem(secret))
    return NewKey(private, public, pair.public, secret is not None)


def signers(paths: Sequence[Path], password: Callable[[Path], bytes], tell: Tell) -> tuple[Signer, ...]:
    """Return the private keys in files.

    Args:
        paths: The files.
        password: Returns the password of the key in a file; called only for an encrypted key.
        tell: Receives a note about a key that others can read.

    Raises:
        UsageError: A file has no key that signs, or the password is wrong.
        ToolError: A file cannot be read, or the extra `sign` is missing.
    """
    if not paths:
        return ()
    try:
        from packager.publish import signer  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        raise missing_extra("--sign-key", error, "sign") from None
    read = [signer.read(_content(path, tell), path.stem, str(path), lambda path=path: password(path)) for path in paths]  # type: ignore[misc]
    return tuple({one.public.der: one for one in read}.values())


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


def _content(path: Path, tell: Tell) -> bytes:
    content = key_content(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ToolError(f"{path} cannot be read") from error
    if mode & 0o077:
        tell(f"note: other users can read {path}: chmod 600 {path}")
    return content

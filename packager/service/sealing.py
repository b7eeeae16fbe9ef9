"""Encrypts secrets for the database and for cookies (AES-256-GCM)."""

from __future__ import annotations

import base64
import binascii
import json
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from packager.base import atomic
from packager.base.errors import ToolError, UsageError, reason
from packager.service import config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from packager.base.values import Json

_KEY = 32
_NONCE = 12


def key_from(text: str, source: str = config.SECRET_KEY) -> bytes:
    """Return the key in a text. Raises UsageError, which names `source`, if the text is not a key."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY:
        raise UsageError(f"{source}: expected 32 bytes in base64", hint="head -c 32 /dev/urandom | base64")
    return key


def key_beside(database: Path) -> tuple[bytes, Path | None]:
    """Return the key in the file `secret.key` beside the database, and the path if the file was created now.

    Raises ToolError or UsageError.
    """
    path, created = database.with_name("secret.key"), None
    if not path.exists():
        with suppress(UsageError):  # another process has created it since
            with atomic.file(path, exists_hint="it is the key to the secrets in the database") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(base64.b64encode(secrets.token_bytes(_KEY)) + b"\n")
            created = path
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ToolError(f"{path} cannot be used: {reason(error)}") from None
    return key_from(text, str(path)), created


class Sealer:
    """Encrypts and decrypts values. A value that was encrypted for one job cannot be decrypted for another job."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, values: Mapping[str, object], release: str) -> bytes:
        """Return values of JSON, encrypted for a job."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._cipher.encrypt(nonce, json.dumps(values).encode(), release.encode())

    def open(self, sealed: bytes, release: str) -> dict[str, Json]:
        """Return decrypted values. Raises ToolError if the key or the release is another one."""
        try:
            values: dict[str, Json] = json.loads(
                self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], release.encode())
            )
        except InvalidTag:
            raise ToolError("the headers of a job cannot be decrypted: the secret key is another one") from None
        return values

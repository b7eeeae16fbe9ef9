"""Signs callbacks as Standard Webhooks does (https://www.standardwebhooks.com, specification 1.0)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from packager.base.errors import ToolError, UsageError, reason

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def read_secret(path: Path) -> bytes:
    """Return the secret in a file: 24 to 64 bytes in base64, with or without `whsec_` before it.

    Raises:
        ToolError: The file cannot be read.
        UsageError: It contains no secret.
    """
    try:
        with path.open("rb") as file:
            text = file.read(4096).decode("ascii", errors="replace").strip()
    except OSError as error:
        raise ToolError(f"callbacks.signing_secret_file: {path} cannot be read: {reason(error)}") from None
    try:
        secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not _SHORTEST <= len(secret) <= _LONGEST:
        message = f"callbacks.signing_secret_file: {path}: expected {_SHORTEST} to {_LONGEST} bytes in base64"
        raise UsageError(message, hint=f'echo "{_PREFIX}$(head -c 32 /dev/urandom | base64)"')
    return secret


def sign(secret: bytes, identifier: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`.

    Args:
        secret: The secret that sender and receiver share.
        identifier: The value of `webhook-id`.
        timestamp: The value of `webhook-timestamp`, in seconds since 1970.
        body: What is sent.
    """
    content = b".".join((identifier.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(secret, content, hashlib.sha256)).decode()

"""Signs callbacks as Standard Webhooks does (https://www.standardwebhooks.com, specification 1.0)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

from packager.base.errors import MlpackError, ToolError, UsageError, reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

_PREFIX = "whsec_"
_KEY = "signing_secret_file"
_SHORTEST, _LONGEST = 24, 64
_MOST = 8


class SigningSecrets:
    """The secrets that sign callbacks: those of the job's project, or else those of the server.

    A file has one secret per line, and all of them sign: while a secret is replaced, receivers with the old secret and
    receivers with the new one accept a callback. Files are read again for each callback, so a change needs no restart.
    """

    def __init__(self, of_server: Path | None = None, of_projects: Mapping[str, Path] | None = None) -> None:
        self._files = {name: (path, f"projects.{name}.{_KEY}") for name, path in (of_projects or {}).items()}
        self._of_server = (of_server, f"callbacks.{_KEY}") if of_server else None
        self._known: dict[Path, tuple[bytes, ...]] = {}

    def read_all(self) -> None:
        """Read all files. Raises ToolError or UsageError."""
        for path, key in (*self._files.values(), *([self._of_server] if self._of_server else ())):
            self._known[path] = read_secrets(path, key)

    def of(self, project: str, log: Callable[[str], None]) -> tuple[bytes, ...]:
        """Return the secrets for a project; if their file is faulty, log a line and return the previous ones."""
        file = self._files.get(project, self._of_server)
        if file is None:
            return ()
        path, key = file
        try:
            self._known[path] = read_secrets(path, key)
        except MlpackError as error:
            log(str(error))
        return self._known.get(path, ())


def read_secrets(path: Path, key: str) -> tuple[bytes, ...]:
    """Return the secrets in a file, one per line: 24 to 64 bytes in base64, with or without the prefix `whsec_`.

    Raises ToolError or UsageError.
    """
    try:
        with path.open("rb") as file:
            text = file.read(4096).decode("ascii", errors="replace")
    except OSError as error:
        raise ToolError(f"{key}: {path} cannot be read: {reason(error)}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    secrets = tuple(map(_decoded, lines))
    if not 0 < len(secrets) <= _MOST or not all(_SHORTEST <= len(secret) <= _LONGEST for secret in secrets):
        message = f"{key}: {path}: expected {_SHORTEST} to {_LONGEST} bytes in base64, in 1 to {_MOST} lines"
        raise UsageError(message, hint=f'echo "{_PREFIX}$(head -c 32 /dev/urandom | base64)"')
    return secrets


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return b""


def sign(secrets: Iterable[bytes], identifier: str, timestamp: int, body: bytes) -> str:
    """Return the value of `webhook-signature`: a signature for each secret, separated by spaces."""
    content = b".".join((identifier.encode(), str(timestamp).encode(), body))
    digests = (hmac.digest(secret, content, hashlib.sha256) for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)

"""Fetches a file of a known digest: the only importer of urllib.request."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request

from packager.errors import ToolError, VerificationError

_SECONDS = 60.0
_MAX_BYTES = 16 << 20


def fetch(url: str, sha256: str, *, otherwise: str | None = None) -> bytes:
    """Return what is at `url`, when it has this digest. Proxies are taken from the environment.

    Args:
        url: Where it is.
        sha256: Its digest, in hex.
        otherwise: What to do when it cannot be had.

    Raises:
        ToolError: It could not be fetched.
        VerificationError: It is something else.
    """
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - https, from our own table
            content = answer.read(_MAX_BYTES + 1)
    except urllib.error.URLError as error:
        raise ToolError(f"{url} could not be fetched: {error.reason}", hint=otherwise) from None
    except (OSError, http.client.HTTPException) as error:
        raise ToolError(f"{url} could not be fetched: {error or type(error).__name__}", hint=otherwise) from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise VerificationError(f"{url} has changed: expected sha256 {sha256}, found {found}")
    return bytes(content)

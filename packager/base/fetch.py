"""Downloads a file with a known digest: the only importer of urllib.request."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request

from packager.base.errors import ToolError, VerificationError, reason

_SECONDS = 60.0
_MAX_BYTES = 16 << 20


def fetch(url: str, sha256: str, *, hint: str | None = None) -> bytes:
    """Return what is at `url`, when it has this digest. Proxies are taken from the environment.

    Args:
        url: Where it is.
        sha256: Its digest, in hex.
        hint: What to do when it cannot be had.

    Raises:
        ToolError: It could not be fetched.
        VerificationError: It is something else.
    """
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - https, from our own table
            content = answer.read(_MAX_BYTES + 1)
    except urllib.error.URLError as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is an answer too, and holds a connection
        raise ToolError(f"{url} could not be fetched: {error.reason}", hint=hint) from None
    except OSError as error:
        raise ToolError(f"{url} could not be fetched: {reason(error)}", hint=hint) from None
    except http.client.HTTPException as error:
        is_cut = isinstance(error, http.client.IncompleteRead)
        problem = "was cut off" if is_cut else f"is invalid: {' '.join(str(error).split())}"
        raise ToolError(f"{url} could not be fetched: the response {problem}", hint=hint) from None
    if answer.length and len(content) <= _MAX_BYTES:  # a read of so many bytes at most does not say so itself
        raise ToolError(f"{url} could not be fetched: the response was cut off", hint=hint)
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise VerificationError(f"{url} has changed: expected sha256 {sha256}, found {digest}")
    return bytes(content)

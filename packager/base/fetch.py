"""Downloads files: the only importer of urllib.request."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from typing import IO, TYPE_CHECKING, Any

from packager.base.errors import ToolError, VerificationError, reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    Progress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
    """Shows the progress of a file: takes its name and its bytes, yields a function for the bytes received."""

_SECONDS = 60.0
_MAX_BYTES = 16 << 20
_MAX_REDIRECTS = 5
_CHUNK = 256 << 10

_SLOW_SECONDS = 60.0
_SLOW_BYTES = 64 << 10
"""A server that sends less than this in that time is given up."""

_AGAIN = "try again: what has come is kept"


def fetch(url: str, sha256: str, *, hint: str | None = None) -> bytes:
    """Return the file at `url` if it has this digest. Proxies are taken from the environment.

    Args:
        url: The address of the file.
        sha256: The digest, in hex.
        hint: The fix for the user if the file cannot be fetched.

    Raises:
        ToolError: The file could not be fetched.
        VerificationError: The file has another digest.
    """
    try:
        with _opener().open(url, timeout=_SECONDS) as answer:
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


def download(url: str, part: Path, sha256: str | None, *, limit: int, progress: Progress) -> str:
    """Fetch the file at `url` into the file `part`, and return its digest. Proxies are taken from the environment.

    The bytes in `part` are kept if the digest is known and the server continues after them.

    Args:
        url: The address: http or https.
        part: A file, or nothing yet. It is kept for the next attempt when the connection breaks.
        sha256: The expected digest, in hex; None when it is not known.
        limit: The most bytes to accept.
        progress: Shows how far it has come.

    Raises:
        ToolError: The file could not be fetched: no connection, too large, too slow, cut off.
        VerificationError: The file has another digest; `part` is then deleted.
    """
    if sha256 is None:
        part.unlink(missing_ok=True)
    is_resumed = part.exists() and part.stat().st_size > 0
    try:
        _fetch_into(url, part, limit, progress)
    except ToolError as error:
        raise ToolError(f"{url} could not be fetched: {error}", hint=error.hint) from None
    except OSError as error:
        raise ToolError(f"{url} could not be fetched: {_explained(error)}") from None
    except http.client.HTTPException as error:
        why = "was cut off" if isinstance(error, http.client.IncompleteRead) else "is invalid"
        raise ToolError(f"{url} could not be fetched: the response {why}") from None
    digest = digest_of(part)
    if sha256 in (None, digest):
        return digest
    part.unlink()
    if is_resumed:  # the beginning may be of something else
        return download(url, part, sha256, limit=limit, progress=progress)
    raise VerificationError(f"{url} is not what the spec says: expected sha256 {sha256}, found {digest}")


def _explained(error: OSError) -> str:
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"{error.code} {error.reason}" if error.reason else str(error.code)
    if isinstance(error, urllib.error.URLError):
        return reason(error.reason) if isinstance(error.reason, OSError) else str(error.reason)
    return reason(error)


def _fetch_into(url: str, part: Path, limit: int, progress: Progress) -> None:
    """Fetch a file, or its missing part."""
    offset = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "mlpack"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the opener has no other schemes
    try:
        answer = _opener().open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not offset:
            raise
        error.close()
        part.unlink()
        _fetch_into(url, part, limit, progress)
        return
    with answer:
        continues = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        if continues and not str(answer.headers.get("Content-Range", "")).startswith(f"bytes {offset}-"):
            part.unlink()
            raise ToolError("the server sent another part than was asked for", hint="try again")
        offset = offset if continues else 0
        with part.open("ab" if continues else "wb") as stream, progress(url, offset + (answer.length or 0)) as advance:
            advance(offset)
            _copy(answer, stream, offset, limit, advance)


def _copy(answer: Any, stream: IO[bytes], offset: int, limit: int, advance: Callable[[int], None]) -> None:
    """Write the bytes of a server, until they are too many or come too slowly."""
    if offset + (answer.length or 0) > limit:
        raise ToolError(f"it has more than {limit:,} bytes")
    since, came = time.monotonic(), 0
    while chunk := answer.read1(_CHUNK):
        offset += len(chunk)
        came += len(chunk)
        if offset > limit:
            raise ToolError(f"it has more than {limit:,} bytes")
        stream.write(chunk)
        advance(len(chunk))
        if time.monotonic() - since > _SLOW_SECONDS:
            if came < _SLOW_BYTES:
                raise ToolError(f"the server sends less than {_SLOW_BYTES >> 10} KiB a minute", hint=_AGAIN)
            since, came = time.monotonic(), 0
    if answer.length:
        raise ToolError("the response was cut off", hint=_AGAIN)


def digest_of(path: Path) -> str:
    """Return the sha256 of a file, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a few redirects, to http and https alone, and none from https to http."""

    max_redirections = _MAX_REDIRECTS

    def redirect_request(self, req: Any, *arguments: Any) -> Any:
        allowed = ("https://",) if req.full_url.lower().startswith("https://") else ("https://", "http://")
        if not str(arguments[-1]).lower().startswith(allowed):
            if arguments[0] is not None:
                arguments[0].close()
            raise urllib.error.URLError(f"it redirects to an address that is not {' or '.join(allowed)}")
        return super().redirect_request(req, *arguments)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener of http and https, and nothing else: no files, no ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener

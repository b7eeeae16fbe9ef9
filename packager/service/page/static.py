"""The page's stylesheet, script and icon. An address changes with the content. Tests: service/page/test_page.py."""

from __future__ import annotations

import hashlib
from pathlib import Path

from litestar import Response, get
from litestar.params import FromPath

from packager.service.failures import Failure

_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOLDER = Path(__file__).resolve().parent / "static"
_FILES = {name: (_FOLDER / name).read_bytes() for name in _TYPES}
_YEAR = 365 * 24 * 60 * 60


def address(name: str) -> str:
    """Return the address of a file, with the digest of its content."""
    return f"/static/{hashlib.sha256(_FILES[name]).hexdigest()[:12]}/{name}"


@get("/static/{digest:str}/{name:str}", include_in_schema=False)
async def _file(digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a file, to be cached for a year if the digest is current. Raises Failure."""
    if name not in _FILES:
        raise Failure("not-found", "file not found")
    kept = f"public, max-age={_YEAR}, immutable" if address(name).split("/")[2] == digest else "no-cache"
    return Response(_FILES[name], media_type=_TYPES[name], headers={"Cache-Control": kept})


HANDLERS = (_file,)
"""The routes."""

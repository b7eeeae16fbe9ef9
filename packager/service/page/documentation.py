"""The views of mlpack's documents, and of the API: its operations, from the OpenAPI document."""

from __future__ import annotations

import asyncio
import json
import posixpath
from functools import cache, partial
from pathlib import Path

from litestar import Response, get
from litestar.params import FromPath

from packager.base.markdown import Page, as_html
from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.api.reference import operations
from packager.service.failures import Failure
from packager.service.page.html import respond

_PACKAGER = Path(__file__).resolve().parents[2]


@cache
def documents() -> dict[str, Path]:
    """Return the documents by their names, such as `service/templates`, and the pictures in them.

    They are inside the wheel, or beside `packager/` in a clone.
    """
    inside = _PACKAGER / "docs"
    folder = inside if inside.is_dir() else _PACKAGER.parent / "docs"
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.*"))}
    return {name.removesuffix(".md"): path for name, path in paths.items() if path.suffix in (".md", ".png")}


@cache
def _shown(name: str, root: str) -> tuple[str, str]:
    """Return the title and the HTML of a document, with links to the documents below `root`."""
    text = documents()[name].read_text(encoding="utf-8")
    title = Page(text.encode(), name).title or name
    return title, as_html(text, partial(_address, name, root))


def _address(name: str, root: str, target: str) -> str | None:
    """Return the address of a target in a document; None if the target is not a document."""
    path, hash_sign, anchor = target.partition("#")
    if "://" in target or not path:
        return target
    page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).removesuffix(".md")
    return f"{root}/help/{page}{hash_sign}{anchor}" if page in documents() else None


@get(["/help", "/help/{name:path}"], include_in_schema=False)
async def _document(request: HttpRequest, name: FromPath[Path] = Path("index")) -> Response[str] | Response[bytes]:
    key = name.as_posix().strip("/")
    path = documents().get(key)
    if path is None:
        raise Failure("not-found", "this page does not exist")
    if path.suffix == ".png":
        await caller_of(request)
        content = await asyncio.to_thread(path.read_bytes)
        return Response(content, media_type="image/png", headers={"Cache-Control": "no-cache"})
    title, shown = await asyncio.to_thread(_shown, key, server_of(request.app.state).root)
    return await respond(request, "document", name=key, title=title, shown=shown)


@get("/api", include_in_schema=False)
async def _api(request: HttpRequest) -> Response[str]:
    content, _ = await request.app.state.document.content(request.app, server_of(request.app.state).root)
    items = await asyncio.to_thread(lambda: operations(json.loads(content)))
    return await respond(request, "api", items=items)


HANDLERS = (_document, _api)
"""The routes."""

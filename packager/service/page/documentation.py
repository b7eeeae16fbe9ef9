"""The views of mlpack's documents, and of the API: its operations, from the OpenAPI document."""

from __future__ import annotations

import asyncio
import itertools
import json
import posixpath
import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from litestar import Response, get
from litestar.params import FromPath
from markdown_it import MarkdownIt

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.api.reference import operations
from packager.service.failures import Failure
from packager.service.page.html import respond

if TYPE_CHECKING:
    from collections.abc import Callable

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
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
    title = text.partition("\n")[0].removeprefix("# ")
    return title, as_html(text, partial(_address, name, root))


def _address(name: str, root: str, target: str) -> str | None:
    """Return the address of a target in a document; None if the target is not a document."""
    path, hash_sign, anchor = target.partition("#")
    if "://" in target or not path:
        return target
    page = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)).removesuffix(".md")
    return f"{root}/help/{page}{hash_sign}{anchor}" if page in documents() else None


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    text = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower().strip())
    return text.replace(" ", "-")


_SHOWN = (
    # A reader who uses the keyboard alone scrolls a wide example or table with the arrow keys.
    ("<pre>", '<pre tabindex="0">'),
    ("<table>", '<div class="wide" tabindex="0"><table>'),
    ("</table>", "</table></div>"),
    # A cell without a text is no heading.
    ("<th></th>", "<td></td>"),
)


def as_html(text: str, link: Callable[[str], str | None]) -> str:
    """Return a document of mlpack as HTML: HTML in it is shown as text, comments are left out.

    Args:
        text: The document.
        link: Returns the address for the target of a link or a picture; for None, a link becomes text.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(_COMMENT.sub("", text))
    numbers: dict[str, int] = {}
    for token, following in itertools.pairwise(tokens):
        if token.type == "heading_open":
            name = anchor(following.content)
            number = numbers[name] = numbers.get(name, -1) + 1
            token.attrSet("id", f"{name}-{number}" if number else name)
        for inline in following.children or ():
            for key in ("href", "src"):
                if key in inline.attrs:
                    address = link(str(inline.attrs[key]))
                    inline.attrs = {**inline.attrs, key: address} if address else {}
    shown: str = parser.renderer.render(tokens, parser.options, {})
    for rendered, replaced in _SHOWN:
        shown = shown.replace(rendered, replaced)
    return shown


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

"""Makes HTML: the only place that fills in the page's templates, escaped. Tests: service/page/test_page.py."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from litestar import MediaType, Response, get
from litestar.params import FromPath
from litestar.response import Redirect

from packager import __version__
from packager.base import yamlio
from packager.diagnosis.curves.figure import number
from packager.service.api.access import server_of
from packager.service.failures import Failure
from packager.service.store.store import FINAL
from packager.service.work import Owner

if TYPE_CHECKING:
    from packager.service.access.tokens import Caller
    from packager.service.api.access import HttpRequest
    from packager.service.server import Server

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cache-Control": "no-store",  # the next person at this browser may have fewer permissions
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # "no-referrer" would take the origin from forms, too
    "X-Frame-Options": "DENY",
}

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Control characters, format characters (bidirectional overrides among them), surrogates, separators of lines; as in
# static/page.js.
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def visible(text: object) -> str:
    """Return a foreign text without terminal escapes, with U+FFFD for each control or invisible character."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", str(text)).split("\n"))
    return "\n".join(line if line.isprintable() else "".join(map(_replaced, line)) for line in lines)


def _replaced(character: str) -> str:
    return "\ufffd" if character != "\t" and unicodedata.category(character) in _HIDDEN else character


def span(seconds: float) -> str:
    """Return a number of seconds in readable units: `5 min`, `2 h 10 min`."""
    rest = max(0, int(seconds))
    for index, (size, unit) in enumerate(_UNITS):
        if rest >= size:
            text = f"{rest // size} {unit}"
            smaller = _UNITS[index + 1 : index + 2] if index < 2 else ()
            for below, name in smaller:
                if rest % size // below:
                    text += f" {rest % size // below} {name}"
            return text
    return "0 s"


def age(text: str) -> str:
    """Return the readable span from a time to now."""
    return between(text, None)


def between(start: str | None, end: str | None) -> str:
    """Return the readable span between two times, or from `start` to now; empty without a start."""
    if start is None:
        return ""
    return span(
        ((datetime.fromisoformat(end) if end else datetime.now(UTC)) - datetime.fromisoformat(start)).total_seconds()
    )


def moment(text: str | None) -> str:
    """Return a time in a readable format, in UTC; empty for None."""
    return datetime.fromisoformat(text).strftime("%Y-%m-%d %H:%M:%S UTC") if text else ""


def clock(text: str) -> str:
    """Return the time of day of a time, in UTC."""
    return datetime.fromisoformat(text).strftime("%H:%M:%S")


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def anchor(text: object) -> str:
    """Return a text as the id of an element: distinct texts have distinct ids."""
    return "".join(
        character if character.isascii() and (character.isalnum() or character == "-") else f"_{ord(character):x}."
        for character in unicodedata.normalize("NFC", str(text))
    )


class _Exact(str):
    """A text that a browser sends back, so that it keeps every character: the value or the name of a field."""

    __slots__ = ()


def _shown(value: object) -> object:
    """Return a value of a template as it is shown: of each text, only what people can see."""
    is_text = isinstance(value, str) and not isinstance(value, _Exact) and not hasattr(value, "__html__")
    return visible(value) if is_text else value


_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOLDER = Path(__file__).resolve().parent
_FILES = {name: (_FOLDER / "static" / name).read_bytes() for name in _TYPES}
_YEAR = 365 * 24 * 60 * 60


def file_address(name: str) -> str:
    """Return the address of the stylesheet, the script or the icon, which changes with its content."""
    return f"/static/{hashlib.sha256(_FILES[name]).hexdigest()[:12]}/{name}"


@get("/static/{digest:str}/{name:str}", include_in_schema=False)
async def static_file(digest: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a file, to be cached for a year if the digest is current. Raises Failure."""
    if name not in _FILES:
        raise Failure("not-found", "file not found")
    kept = f"public, max-age={_YEAR}, immutable" if file_address(name).split("/")[2] == digest else "no-cache"
    return Response(_FILES[name], media_type=_TYPES[name], headers={"Cache-Control": kept})


_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    finalize=_shown,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters |= {
    "age": age,
    "number": number,
    "anchor": anchor,
    "clock": clock,
    "moment": moment,
    "plural": plural,
    "exact": _Exact,
    "yaml": lambda value: yamlio.dump([value]),
}
_environment.globals |= {"between": between, "version": __version__, "static": file_address}


async def respond(
    request: HttpRequest, caller: Caller, template: str, status: int = 200, **values: object
) -> Response[str]:
    """Return a view for a caller: `template`, filled in with `values`."""
    server = server_of(request.app.state)
    shown = {"caller": caller, "open": server.trusted is not None, "away": server.readiness.away, **values}
    # A long view, such as one of many manifests, takes seconds: the requests of others must not wait for it.
    return await server.work.run(Owner(caller.key), partial(_filled, server, template, status, **shown))


def public(server: Server, template: str, status: int = 200, **values: object) -> Response[str]:
    """Return a view for people who have not signed in."""
    return _filled(server, template, status, caller=None, open=False, away=None, **values)


def _filled(server: Server, template: str, status: int, **values: object) -> Response[str]:
    docs = server.documentation.rstrip("/") if server.documentation else None
    text = _environment.get_template(f"{template}.html").render(
        final=FINAL, root=server.root, demo=server.is_demo, docs=docs, **values
    )
    return Response(text, status_code=status, media_type=MediaType.HTML, headers=_HEADERS)


def redirect(path: str) -> Response[str]:
    """Return an answer that redirects to another view, also after a form."""
    return Redirect(path, status_code=303, headers={"Cache-Control": "no-store"})


def failed(server: Server, failure: Failure, caller: Caller | None) -> Response[str]:
    """Return the error view for a refused request, with the navigation of its caller; None if unknown."""
    is_open = server.trusted is not None
    return _filled(server, "error", failure.status, caller=caller, open=is_open, away=None, failure=failure)

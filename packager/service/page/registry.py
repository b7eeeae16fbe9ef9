"""The views of definitions and templates: lists, and revisions with their changes."""

from __future__ import annotations

import difflib
import re
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from litestar import Response, get
from litestar.params import FromPath, FromQuery

from packager.base.problems import show
from packager.base.values import Value
from packager.service.api.access import CallerDependency, HttpRequest, ServerDependency, server_of
from packager.service.failures import Failure
from packager.service.page.html import respond
from packager.service.registry.bodies import as_flag
from packager.service.use.answers import RegisteredDefinition, RegisteredTemplate
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Sequence
    from typing import Any

Registered = TypeVar("Registered", RegisteredDefinition, RegisteredTemplate)

_NOT_COMPARED = ("name", "revision", "created", "author", "warnings", "required_values")
_MOST_LINES = 2_000
"""The most lines of two texts that are compared."""


class DiffLine(Value, frozen=True):
    """A line of a comparison."""

    mark: str  # + for a new line, - for a removed line, a space for an unchanged line, @ for omitted lines
    text: str


class Changed(Value, frozen=True):
    """The changes in a field: the changed lines, and some lines around them."""

    key: str
    lines: tuple[DiffLine, ...]


def compared(older: Registered, newer: Registered) -> tuple[Changed, ...]:
    """Return the changed fields between two revisions."""
    keys = [key for key in newer.__struct_fields__ if key not in _NOT_COMPARED]
    pairs = [(key, _text(getattr(older, key)), _text(getattr(newer, key))) for key in keys]
    return tuple(Changed(key, tuple(_lines(old, new))) for key, old, new in pairs if old != new)


def _text(value: object) -> str:
    return "" if value is None else ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _lines(old: str, new: str) -> Iterator[DiffLine]:
    before, after = old.splitlines(), new.splitlines()
    if len(before) + len(after) > _MOST_LINES:
        yield DiffLine("@", f"too long to compare: {len(before):,} and {len(after):,} lines")
        return
    for text in islice(difflib.unified_diff(before, after, lineterm="", n=3), 2, None):  # the first two are headers
        yield DiffLine(text[0], text[1:] if text[0] != "@" else text)


async def _revision(  # noqa: PLR0913, PLR0917 - the parts of the view
    request: HttpRequest,
    caller: CallerDependency,
    view: str,
    items: Sequence[Registered],
    current: Awaitable[Registered],
    revision: str,
    **more: object,
) -> Response[str]:
    """Return the view of a revision, by its number in an address or the newest one. Raises Failure.

    Args:
        request: The request.
        caller: The caller.
        view: `definition` or `template`.
        items: All revisions, the newest first.
        current: The current revision; raises Failure if the object was removed.
        revision: The number; empty for the newest.
        more: Further values for the view.
    """
    try:
        now = (await current).revision
    except Failure as failure:
        if failure.status != 404:
            raise
        now = 0
    if revision and not re.fullmatch("[0-9]{1,9}", revision):
        raise Failure("invalid-query", f"revision: expected a whole number, such as 1, found {show(revision)}")
    number = int(revision) if revision else items[0].revision
    shown = next((item for item in items if item.revision == number), None)
    if shown is None:
        raise Failure("not-found", f"revision {number} of {view} {items[0].name!r} not found")
    older = next((item for item in items if item.revision < number), None)
    changes = (
        await server_of(request.app.state).work.run(Owner(caller.key), partial(compared, older, shown)) if older else ()
    )
    found: dict[str, Any] = {
        "item": shown,
        "items": items,
        "older": older,
        "changes": changes,
        "is_current": now == number,
    }
    return await respond(request, caller, view, **{**found, **more})


@get("/definitions", include_in_schema=False)
async def definitions(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show the definitions."""
    return await respond(request, caller, "definitions", items=(await server.definitions.read(caller)).items)


@get("/definitions/{name:str}", include_in_schema=False)
async def definition(
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    name: FromPath[str],
    revision: FromQuery[str] = "",
) -> Response[str]:
    """Show a revision of a definition."""
    items = (await server.definitions.revisions(caller, name)).items
    appends = as_flag(items[0].append_uuid)
    current = server.definitions.get(caller, name)
    return await _revision(request, caller, "definition", items, current, revision, appends=appends)


@get("/templates", include_in_schema=False)
async def templates(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show the templates."""
    return await respond(request, caller, "templates", items=(await server.templates.read(caller)).items)


@get("/templates/{name:str}", include_in_schema=False)
async def template(
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    name: FromPath[str],
    revision: FromQuery[str] = "",
) -> Response[str]:
    """Show a revision of a template."""
    items = (await server.templates.revisions(caller, name)).items
    listed = (await server.definitions.read(caller)).items
    users = [item.name for item in listed if item.task_template_name == name]
    current = server.templates.get(caller, name)
    return await _revision(request, caller, "template", items, current, revision, users=users)


HANDLERS = (definitions, definition, templates, template)
"""The routes."""

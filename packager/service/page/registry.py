"""The views of definitions and templates: lists, and revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from litestar import Response, get
from litestar.params import FromPath, FromQuery

from packager.service.api.access import CallerDependency, HttpRequest, ServerDependency
from packager.service.failures import Failure
from packager.service.page.html import respond
from packager.service.use.answers import RegisteredDefinition, RegisteredTemplate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

Registered = TypeVar("Registered", RegisteredDefinition, RegisteredTemplate)


async def _revision(  # noqa: PLR0913, PLR0917 - the parts of the view
    request: HttpRequest,
    caller: CallerDependency,
    view: str,
    items: Sequence[Registered],
    current: Awaitable[Registered],
    revision: int | None,
    **more: Any,
) -> Response[str]:
    """Return the view of a revision, by its number in an address or the newest one. Raises Failure.

    Args:
        request: The request.
        caller: The caller.
        view: `definition` or `template`.
        items: All revisions, the newest first.
        current: The current revision; raises Failure if the object was removed.
        revision: The number; None for the newest.
        more: Further values for the view.
    """
    try:
        now = (await current).revision
    except Failure as failure:
        if failure.status != 404:
            raise
        now = 0
    number = items[0].revision if revision is None else revision
    shown = next((item for item in items if item.revision == number), None)
    if shown is None:
        raise Failure("not-found", f"revision {number} of {view} {items[0].name!r} not found")
    return await respond(request, caller, view, item=shown, items=items, is_current=now == number, **more)


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
    revision: FromQuery[int | None] = None,
) -> Response[str]:
    """Show a revision of a definition."""
    items = (await server.definitions.revisions(caller, name)).items
    current = server.definitions.get(caller, name)
    return await _revision(request, caller, "definition", items, current, revision)


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
    revision: FromQuery[int | None] = None,
) -> Response[str]:
    """Show a revision of a template."""
    items = (await server.templates.revisions(caller, name)).items
    listed = (await server.definitions.read(caller)).items
    users = [item.name for item in listed if item.task_template_name == name]
    current = server.templates.get(caller, name)
    return await _revision(request, caller, "template", items, current, revision, users=users)


HANDLERS = (definitions, definition, templates, template)
"""The routes."""

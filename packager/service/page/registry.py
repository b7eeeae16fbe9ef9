"""The views of definitions and templates: lists and revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Response, get
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery

from packager.service.api.access import HttpRequest, caller_of, server_of
from packager.service.failures import Failure
from packager.service.page import revisions
from packager.service.page.html import respond
from packager.service.registry.bodies import as_flag

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeVar

    from packager.service.use.answers import RegisteredDefinition, RegisteredTemplate

    Registered = TypeVar("Registered", RegisteredDefinition, RegisteredTemplate)

_TEMPLATE_KEYS = ("template", "description", "deprecated")
_DEFINITION_KEYS = (
    "task_template_name",
    "package",
    "project",
    "description",
    "application",
    "creator",
    "append_uuid",
    "user_values_description",
    "user_values_example",
    "system_values",
)


# definitions


@get("/definitions", include_in_schema=False)
async def _definitions(request: HttpRequest, state: State) -> Response[str]:
    items = (await server_of(state).definitions.read(await caller_of(request))).items
    return await respond(request, "definitions", items=items)


@get("/definitions/{name:str}", include_in_schema=False)
async def _definition(
    request: HttpRequest, state: State, name: FromPath[str], revision: FromQuery[str] = ""
) -> Response[str]:
    items = (await server_of(state).definitions.revisions(await caller_of(request), name)).items
    current = await _or_none(server_of(state).definitions.definition(await caller_of(request), name))
    item = revisions.chosen(f"definition {name!r}", items, revision)
    shown = await revisions.changes_of(items, item, current, (*_DEFINITION_KEYS, "origin"))
    return await respond(request, "definition", 200, role="viewer", appends=as_flag(item.append_uuid), **shown)


async def _or_none(answer: Awaitable[Registered]) -> Registered | None:
    try:
        return await answer
    except Failure as failure:
        if failure.status != 404:
            raise
        return None


# templates


@get("/templates", include_in_schema=False)
async def _templates(request: HttpRequest, state: State) -> Response[str]:
    items = (await server_of(state).templates.read(await caller_of(request))).items
    return await respond(request, "templates", items=items)


@get("/templates/{name:str}", include_in_schema=False)
async def _template(
    request: HttpRequest, state: State, name: FromPath[str], revision: FromQuery[str] = ""
) -> Response[str]:
    items = (await server_of(state).templates.revisions(await caller_of(request), name)).items
    current = await _or_none(server_of(state).templates.template(await caller_of(request), name))
    shown = await revisions.changes_of(
        items, revisions.chosen(f"template {name!r}", items, revision), current, _TEMPLATE_KEYS
    )
    definitions = (await server_of(state).definitions.read(await caller_of(request))).items
    users = [item.name for item in definitions if item.task_template_name == name]
    return await respond(request, "template", 200, role="viewer", users=users, **shown)


HANDLERS = (
    _definitions,
    _definition,
    _templates,
    _template,
)
"""The routes."""

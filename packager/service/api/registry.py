"""The routes of templates and definitions."""

from __future__ import annotations

from collections.abc import Mapping  # litestar reads the types of routes

from litestar import Response, delete, get, post, put
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, JSONBody

from packager.service.api import document
from packager.service.api.access import (
    HttpRequest,
    IfMatch,
    caller_of,
    created,
    expected_revision,
    server_of,
    tagged,
)
from packager.service.registry.bodies import DefinitionBody, TemplateBody
from packager.service.use.answers import (
    DefinitionList,
    DefinitionTrial,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateList,
    TemplateTrial,
)

# templates


@get("/v1/templates")
async def list_templates(request: HttpRequest, state: State) -> TemplateList:
    """List the current revision of each template."""
    return await server_of(state).templates.read(await caller_of(request))


@post(
    "/v1/templates",
    status_code=201,
    responses={
        200: document.answer(TemplateTrial, "What registering it would do"),
        201: document.answer(RegisteredTemplate, "The template"),
    },
)
async def add_template(
    request: HttpRequest,
    state: State,
    data: JSONBody[TemplateBody],
    dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
) -> Response[TemplateTrial] | Response[RegisteredTemplate]:
    """Register a template; with `dry_run`, return the outcome without registering, also for a registered name."""
    caller, templates = await caller_of(request), server_of(state).templates
    if dry_run:
        return Response(await templates.trial(caller, data), status_code=200)
    added = await templates.add(caller, data)
    return created(added, f"/v1/templates/{added.name}")


@get("/v1/templates/{name:str}")
async def get_template(request: HttpRequest, state: State, name: FromPath[str]) -> Response[RegisteredTemplate]:
    """Return the current revision of a template."""
    current = await server_of(state).templates.template(await caller_of(request), name)
    return tagged(current, current.revision)


@put("/v1/templates/{name:str}")
async def change_template(
    request: HttpRequest,
    state: State,
    name: FromPath[str],
    data: JSONBody[TemplateBody],
    if_match: IfMatch = None,
) -> Response[RegisteredTemplate]:
    """Register the next revision of a template; `warnings` name definitions that no longer work, and the reasons."""
    caller = await caller_of(request)
    changed = await server_of(state).templates.change(caller, name, data, expected_revision(if_match))
    return tagged(changed, changed.revision)


@delete("/v1/templates/{name:str}")
async def remove_template(request: HttpRequest, state: State, name: FromPath[str]) -> None:
    """Remove a template that no definition uses."""
    await server_of(state).templates.remove(await caller_of(request), name)


@get("/v1/templates/{name:str}/revisions")
async def template_revisions(request: HttpRequest, state: State, name: FromPath[str]) -> TemplateList:
    """List all revisions of a template, the newest first."""
    return await server_of(state).templates.revisions(await caller_of(request), name)


@get("/v1/templates/{name:str}/revisions/{number:int}")
async def template_revision(
    request: HttpRequest, state: State, name: FromPath[str], number: FromPath[int]
) -> RegisteredTemplate:
    """Return a revision of a template."""
    return await server_of(state).templates.template(await caller_of(request), name, number)


# definitions


@get("/v1/definitions")
async def list_definitions(request: HttpRequest, state: State) -> DefinitionList:
    """List the current revision of each definition."""
    return await server_of(state).definitions.read(await caller_of(request))


@post(
    "/v1/definitions",
    status_code=201,
    responses={
        200: document.answer(DefinitionTrial, "What registering it would do"),
        201: document.answer(RegisteredDefinition, "The definition"),
    },
)
async def add_definition(
    request: HttpRequest,
    state: State,
    data: JSONBody[DefinitionBody],
    dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
) -> Response[DefinitionTrial] | Response[RegisteredDefinition]:
    """Register a definition; with `dry_run`, return the outcome without registering, also for a registered name.

    The example of the definition is filled in as a trial.
    """
    caller, definitions = await caller_of(request), server_of(state).definitions
    if dry_run:
        return Response(await definitions.trial(caller, data), status_code=200)
    added = await definitions.add(caller, data)
    return created(added, f"/v1/definitions/{added.name}")


@get("/v1/definitions/{name:str}")
async def get_definition(request: HttpRequest, state: State, name: FromPath[str]) -> Response[RegisteredDefinition]:
    """Return the current revision of a definition."""
    current = await server_of(state).definitions.definition(await caller_of(request), name)
    return tagged(current, current.revision)


@put("/v1/definitions/{name:str}")
async def change_definition(
    request: HttpRequest,
    state: State,
    name: FromPath[str],
    data: JSONBody[DefinitionBody],
    if_match: IfMatch = None,
) -> Response[RegisteredDefinition]:
    """Register the next revision of a definition."""
    caller = await caller_of(request)
    changed = await server_of(state).definitions.change(caller, name, data, expected_revision(if_match))
    return tagged(changed, changed.revision)


@delete("/v1/definitions/{name:str}")
async def remove_definition(request: HttpRequest, state: State, name: FromPath[str]) -> None:
    """Remove a definition; jobs that were made with it stay."""
    await server_of(state).definitions.remove(await caller_of(request), name)


@get("/v1/definitions/{name:str}/revisions")
async def definition_revisions(request: HttpRequest, state: State, name: FromPath[str]) -> DefinitionList:
    """List all revisions of a definition, the newest first."""
    return await server_of(state).definitions.revisions(await caller_of(request), name)


@get("/v1/definitions/{name:str}/revisions/{number:int}")
async def definition_revision(
    request: HttpRequest, state: State, name: FromPath[str], number: FromPath[int]
) -> RegisteredDefinition:
    """Return a revision of a definition."""
    return await server_of(state).definitions.definition(await caller_of(request), name, number)


@get("/v1/definitions/{name:str}/schema")
async def definition_schema(request: HttpRequest, state: State, name: FromPath[str]) -> Mapping[str, object]:
    """Return the JSON Schema of the values that users fill in."""
    return (await server_of(state).definitions.usable(await caller_of(request), name)).json_schema


HANDLERS = (
    list_templates,
    add_template,
    get_template,
    change_template,
    remove_template,
    template_revisions,
    template_revision,
    list_definitions,
    add_definition,
    get_definition,
    change_definition,
    remove_definition,
    definition_revisions,
    definition_revision,
    definition_schema,
)
"""The routes."""

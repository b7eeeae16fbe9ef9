"""The routes of templates and definitions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Response, delete, get, post, put
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery, JSONBody

from packager.base.values import as_plain, replace
from packager.service.access import permissions
from packager.service.api import document
from packager.service.api.access import (
    AnyRequest,
    IdempotencyKey,
    IfMatch,
    admin_of,
    caller_of,
    expected_revision,
    once,
    server_of,
    tagged,
)
from packager.service.failures import Failure
from packager.service.jobs import records
from packager.service.registry.bodies import DefinitionBody, TemplateBody
from packager.service.registry.catalog import read_definition
from packager.service.use import answers
from packager.service.use.answers import (
    DefinitionList,
    DefinitionTrial,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateList,
    TemplateTrial,
)

if TYPE_CHECKING:
    from packager.service.access.tokens import Caller
    from packager.service.store.store import Row

# templates


@get("/v1/templates")
async def list_templates(request: AnyRequest, state: State) -> TemplateList:
    """List the current revision of each template."""
    await caller_of(request, "viewer")
    return TemplateList(
        items=[answers.template(row) for row in await asyncio.to_thread(server_of(state).store.templates)]
    )


@post(
    "/v1/templates",
    status_code=201,
    responses={
        200: document.answer(TemplateTrial, "What registering it would do"),
        201: document.answer(RegisteredTemplate, "The template"),
    },
)
async def add_template(
    request: AnyRequest,
    state: State,
    data: JSONBody[TemplateBody],
    dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[Any]:
    """Register a template; with `dry_run`, return what that would do, also to one that is registered."""
    caller = await admin_of(request, None)
    if dry_run:
        return Response(await try_template(request, state, data), status_code=200)

    async def make(_row: Row | None) -> tuple[int, Any, str]:
        row = await asyncio.to_thread(server_of(state).catalog.add_template, data, caller.name)
        return 201, as_plain(answers.template(row)), f"/v1/templates/{row['name']}"

    return await once(request, caller, idempotency_key, make)


async def try_template(request: AnyRequest, state: State, body: TemplateBody) -> TemplateTrial:
    """Return what registering a template would do, as far as the caller may register it. Raises Failure."""
    await admin_of(request, None)
    tried = await asyncio.to_thread(server_of(state).catalog.try_template, body)
    return TemplateTrial(outcome=tried.outcome, definitions=tried.problems)


@get("/v1/templates/{name:str}")
async def get_template(request: AnyRequest, state: State, name: FromPath[str]) -> Response[RegisteredTemplate]:
    """Return the current revision of a template."""
    await caller_of(request, "viewer")
    row = await asyncio.to_thread(server_of(state).catalog.template, name)
    return tagged(answers.template(row), row["revision"])


@put("/v1/templates/{name:str}")
async def change_template(
    request: AnyRequest,
    state: State,
    name: FromPath[str],
    data: JSONBody[TemplateBody],
    if_match: IfMatch = None,
) -> Response[RegisteredTemplate]:
    """Register the next revision of a template; `warnings` say which definitions over it no longer work, and why."""
    caller = await admin_of(request, None)
    expected = expected_revision(if_match)
    change = server_of(state).catalog.change_template
    row, warnings = await asyncio.to_thread(change, name, data, caller.name, expected)
    return tagged(answers.template(row, warnings), row["revision"])


@delete("/v1/templates/{name:str}")
async def remove_template(request: AnyRequest, state: State, name: FromPath[str]) -> None:
    """Remove a template that no definition uses."""
    await admin_of(request, None)
    await asyncio.to_thread(server_of(state).catalog.remove_template, name)


@get("/v1/templates/{name:str}/revisions")
async def template_revisions(request: AnyRequest, state: State, name: FromPath[str]) -> TemplateList:
    """List all revisions of a template, the newest first."""
    await caller_of(request, "viewer")
    rows = await asyncio.to_thread(server_of(state).store.template_revisions, name)
    if not rows:
        raise Failure("not-found", f"template {name!r} not found")
    return TemplateList(items=[answers.template(row) for row in rows])


@get("/v1/templates/{name:str}/revisions/{number:int}")
async def template_revision(
    request: AnyRequest, state: State, name: FromPath[str], number: FromPath[int]
) -> RegisteredTemplate:
    """Return a revision of a template."""
    await caller_of(request, "viewer")
    return answers.template(await asyncio.to_thread(server_of(state).catalog.template, name, number))


# definitions


@get("/v1/definitions")
async def list_definitions(request: AnyRequest, state: State) -> DefinitionList:
    """List the current revision of each definition."""
    caller = await caller_of(request, "viewer")
    rows = await asyncio.to_thread(server_of(state).store.definitions)
    return DefinitionList(items=[answers.definition(row) for row in rows if permissions.sees_definition(caller, row)])


async def _definition(request: AnyRequest, state: State, name: str, number: int | None = None) -> Row:
    """Return a definition that the caller may know of. Raises Failure."""
    caller = await caller_of(request, "viewer")
    row = await asyncio.to_thread(server_of(state).catalog.definition, name, number)
    permissions.check_sees_definition(caller, row)
    return row


async def _changed_definition(request: AnyRequest, state: State, name: str) -> tuple[Row, Caller]:
    """Return a definition that the caller may change, and the caller. Raises Failure."""
    caller = await caller_of(request, "developer")
    row = await asyncio.to_thread(server_of(state).catalog.definition, name)
    permissions.check_changes_definition(caller, row)
    return row, caller


@post(
    "/v1/definitions",
    status_code=201,
    responses={
        200: document.answer(DefinitionTrial, "What registering it would do"),
        201: document.answer(RegisteredDefinition, "The definition"),
    },
)
async def add_definition(
    request: AnyRequest,
    state: State,
    data: JSONBody[DefinitionBody],
    dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    idempotency_key: IdempotencyKey = None,
) -> Response[Any]:
    """Register a definition; with `dry_run`, return what that would do, also to one that is registered.

    Its example is filled in as a trial.
    """
    caller = await caller_of(request, "developer")
    if dry_run:
        return Response(await try_definition(request, state, data), status_code=200)
    server = server_of(state)
    body = replace(data, project=permissions.project_of_definition(caller, data.project, server.projects))

    async def make(_row: Row | None) -> tuple[int, Any, str]:
        row, trial = await server.check(body, lambda: server.catalog.add_definition(body, caller.name))
        warnings = await server.tasks.warnings(trial)
        return 201, as_plain(answers.definition(row, warnings)), f"/v1/definitions/{row['name']}"

    return await once(request, caller, idempotency_key, make)


async def try_definition(request: AnyRequest, state: State, body: DefinitionBody) -> DefinitionTrial:
    """Return what registering a definition would do, as far as the caller may register it. Raises Failure."""
    caller = await caller_of(request, "developer")
    server = server_of(state)
    before = await asyncio.to_thread(server.store.definition, body.name)
    asked = body.project
    if before is not None:
        permissions.check_changes_definition(caller, before)
        asked = asked or permissions.definition_project(before)
    body = replace(body, project=permissions.project_of_definition(caller, asked, server.projects))
    tried = await server.check(body, lambda: server.catalog.try_definition(body, caller.name))
    return DefinitionTrial(
        outcome=tried.outcome,
        manifests=records.redacted(tried.trial.objects),
        warnings=await server.tasks.warnings(tried.trial),
    )


@get("/v1/definitions/{name:str}")
async def get_definition(request: AnyRequest, state: State, name: FromPath[str]) -> Response[RegisteredDefinition]:
    """Return the current revision of a definition."""
    row = await _definition(request, state, name)
    return tagged(answers.definition(row), row["revision"])


@put("/v1/definitions/{name:str}")
async def change_definition(
    request: AnyRequest,
    state: State,
    name: FromPath[str],
    data: JSONBody[DefinitionBody],
    if_match: IfMatch = None,
) -> Response[RegisteredDefinition]:
    """Register the next revision of a definition."""
    before, caller = await _changed_definition(request, state, name)
    server, expected = server_of(state), expected_revision(if_match)
    asked = data.project or permissions.definition_project(before)
    body = replace(data, project=permissions.project_of_definition(caller, asked, server.projects))
    row, trial = await server.check(body, lambda: server.catalog.change_definition(name, body, caller.name, expected))
    return tagged(answers.definition(row, await server.tasks.warnings(trial)), row["revision"])


@delete("/v1/definitions/{name:str}")
async def remove_definition(request: AnyRequest, state: State, name: FromPath[str]) -> None:
    """Remove a definition; jobs that were made with it stay."""
    await _changed_definition(request, state, name)
    await asyncio.to_thread(server_of(state).catalog.remove_definition, name)


@get("/v1/definitions/{name:str}/revisions")
async def definition_revisions(request: AnyRequest, state: State, name: FromPath[str]) -> DefinitionList:
    """List all revisions of a definition, the newest first."""
    caller = await caller_of(request, "viewer")
    rows = await asyncio.to_thread(server_of(state).store.definition_revisions, name)
    if not rows or not permissions.sees_definition(caller, rows[0]):
        raise Failure("not-found", f"definition {name!r} not found")
    return DefinitionList(items=[answers.definition(row) for row in rows])


@get("/v1/definitions/{name:str}/revisions/{number:int}")
async def definition_revision(
    request: AnyRequest, state: State, name: FromPath[str], number: FromPath[int]
) -> RegisteredDefinition:
    """Return a revision of a definition."""
    await _definition(request, state, name)  # what its newest revision belongs to
    return answers.definition(await _definition(request, state, name, number))


@get("/v1/definitions/{name:str}/schema")
async def definition_schema(request: AnyRequest, state: State, name: FromPath[str]) -> dict[str, Any]:
    """Return the JSON Schema of the values that users fill in."""
    row = await _definition(request, state, name)
    return read_definition(row).json_schema


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

"""The routes of templates and definitions."""

from __future__ import annotations

from collections.abc import Mapping  # litestar reads the types of routes

from litestar import Controller, Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, JSONBody

from packager.service.api import document
from packager.service.api.access import CallerDependency, IfMatch, ServerDependency, created, expected_revision, tagged
from packager.service.registry.bodies import DefinitionBody, TemplateBody
from packager.service.use.answers import (
    DefinitionList,
    DefinitionTrial,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateList,
    TemplateTrial,
)


class TemplateRoutes(Controller):
    """The routes of templates."""

    path = "/v1/templates"

    @get()
    async def list_templates(self, server: ServerDependency, caller: CallerDependency) -> TemplateList:
        """List the current revision of each template."""
        return await server.templates.read(caller)

    @post(
        status_code=201,
        responses={
            200: document.answer(TemplateTrial, "What registering it would do"),
            201: document.answer(RegisteredTemplate, "The template"),
        },
    )
    async def add_template(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        data: JSONBody[TemplateBody],
        dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    ) -> Response[TemplateTrial] | Response[RegisteredTemplate]:
        """Register a template; with `dry_run`, return the outcome without registering, also for a registered name."""
        if dry_run:
            return Response(await server.templates.trial(caller, data), status_code=200)
        return created(await server.templates.add(caller, data), f"/v1/templates/{data.name}")

    @get("/{name:str}")
    async def get_template(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> Response[RegisteredTemplate]:
        """Return the current revision of a template."""
        current = await server.templates.template(caller, name)
        return tagged(current, current.revision)

    @put("/{name:str}")
    async def change_template(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        name: FromPath[str],
        data: JSONBody[TemplateBody],
        if_match: IfMatch = None,
    ) -> Response[RegisteredTemplate]:
        """Register the next revision of a template; `warnings` name definitions that no longer work, and why."""
        changed = await server.templates.change(caller, name, data, expected_revision(if_match))
        return tagged(changed, changed.revision)

    @delete("/{name:str}")
    async def remove_template(self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]) -> None:
        """Remove a template that no definition uses."""
        await server.templates.remove(caller, name)

    @get("/{name:str}/revisions")
    async def template_revisions(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> TemplateList:
        """List all revisions of a template, the newest first."""
        return await server.templates.revisions(caller, name)

    @get("/{name:str}/revisions/{number:int}")
    async def template_revision(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str], number: FromPath[int]
    ) -> RegisteredTemplate:
        """Return a revision of a template."""
        return await server.templates.template(caller, name, number)


class DefinitionRoutes(Controller):
    """The routes of definitions."""

    path = "/v1/definitions"

    @get()
    async def list_definitions(self, server: ServerDependency, caller: CallerDependency) -> DefinitionList:
        """List the current revision of each definition."""
        return await server.definitions.read(caller)

    @post(
        status_code=201,
        responses={
            200: document.answer(DefinitionTrial, "What registering it would do"),
            201: document.answer(RegisteredDefinition, "The definition"),
        },
    )
    async def add_definition(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        data: JSONBody[DefinitionBody],
        dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    ) -> Response[DefinitionTrial] | Response[RegisteredDefinition]:
        """Register a definition; with `dry_run`, return the outcome without registering, also for a registered name.

        The example of the definition is filled in as a trial.
        """
        if dry_run:
            return Response(await server.definitions.trial(caller, data), status_code=200)
        added = await server.definitions.add(caller, data)
        return created(added, f"/v1/definitions/{added.name}")

    @get("/{name:str}")
    async def get_definition(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> Response[RegisteredDefinition]:
        """Return the current revision of a definition."""
        current = await server.definitions.definition(caller, name)
        return tagged(current, current.revision)

    @put("/{name:str}")
    async def change_definition(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        name: FromPath[str],
        data: JSONBody[DefinitionBody],
        if_match: IfMatch = None,
    ) -> Response[RegisteredDefinition]:
        """Register the next revision of a definition."""
        changed = await server.definitions.change(caller, name, data, expected_revision(if_match))
        return tagged(changed, changed.revision)

    @delete("/{name:str}")
    async def remove_definition(self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]) -> None:
        """Remove a definition; jobs that were made with it stay."""
        await server.definitions.remove(caller, name)

    @get("/{name:str}/revisions")
    async def definition_revisions(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> DefinitionList:
        """List all revisions of a definition, the newest first."""
        return await server.definitions.revisions(caller, name)

    @get("/{name:str}/revisions/{number:int}")
    async def definition_revision(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str], number: FromPath[int]
    ) -> RegisteredDefinition:
        """Return a revision of a definition."""
        return await server.definitions.definition(caller, name, number)

    @get("/{name:str}/schema")
    async def definition_schema(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> Mapping[str, object]:
        """Return the JSON Schema of the values that users fill in."""
        return (await server.definitions.usable(caller, name)).json_schema

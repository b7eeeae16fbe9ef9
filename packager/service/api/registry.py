"""The routes of templates and definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from litestar import Controller, Response, delete, get, post, put
from litestar.params import FromPath, FromQuery, JSONBody

from packager.service.api import document
from packager.service.api.access import CallerDependency, IfMatch, ServerDependency, created, expected_revision, tagged
from packager.service.registry.bodies import DefinitionBody, TemplateBody
from packager.service.use.answers import (
    DefinitionTrial,
    Page,
    RegisteredDefinition,
    RegisteredTemplate,
    TemplateTrial,
)

if TYPE_CHECKING:
    from litestar import Router
    from litestar.handlers import BaseRouteHandler

    from packager.service.server import Server

Body = TypeVar("Body")
Answer = TypeVar("Answer", RegisteredTemplate, RegisteredDefinition)
Trial = TypeVar("Trial")


class _Routes(Controller, Generic[Body, Answer, Trial]):
    """The routes of a kind of objects with revisions."""

    types: tuple[Any, Any, Any]  # the types in the places of the variables

    def __init__(self, owner: Router) -> None:
        super().__init__(owner)
        names = dict(zip(_Routes.__parameters__, self.types, strict=True))  # type: ignore[attr-defined]  # as generic
        self.signature_namespace = {**self.signature_namespace, **names}

    def get_route_handlers(self) -> list[BaseRouteHandler]:
        """Return the routes; that of registrations has two answers."""
        handlers = super().get_route_handlers()
        _, answer, trial = self.types
        for handler in handlers:
            if isinstance(handler, post):
                described = {200: (trial, "What registering it would do"), 201: (answer, "What was registered")}
                handler.responses = {status: document.answer(*parts) for status, parts in described.items()}
        return handlers

    def use(self, server: Server) -> Any:
        """Return the use cases."""
        raise NotImplementedError

    @get()
    async def list_current(self, server: ServerDependency, caller: CallerDependency) -> Page[Answer]:
        """List the current revision of each name."""
        page: Page[Answer] = await self.use(server).read(caller)
        return page

    @post(status_code=201)
    async def register(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        data: JSONBody[Body],
        dry_run: FromQuery[bool] = False,  # noqa: FBT002 - a query parameter
    ) -> Response[Trial] | Response[Answer]:
        """Register one; with `dry_run`, return the outcome without registering, also for a registered name.

        The example of a definition is filled in as a trial. The warnings of a template name definitions that no longer
        work, and why.
        """
        if dry_run:
            return Response(await self.use(server).trial(caller, data), status_code=200)
        added: Answer = await self.use(server).add(caller, data)
        return created(added, f"{self.path}/{added.name}")

    @get("/{name:str}")
    async def get_current(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> Response[Answer]:
        """Return the current revision."""
        current: Answer = await self.use(server).get(caller, name)
        return tagged(current, current.revision)

    @put("/{name:str}")
    async def change(
        self,
        server: ServerDependency,
        caller: CallerDependency,
        name: FromPath[str],
        data: JSONBody[Body],
        if_match: IfMatch = None,
    ) -> Response[Answer]:
        """Register the next revision; the warnings of a template name definitions that no longer work, and why."""
        changed: Answer = await self.use(server).change(caller, name, data, expected_revision(if_match))
        return tagged(changed, changed.revision)

    @delete("/{name:str}")
    async def remove(self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]) -> None:
        """Remove a template that no definition uses, or a definition, whose jobs stay."""
        await self.use(server).remove(caller, name)

    @get("/{name:str}/revisions")
    async def list_revisions(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
    ) -> Page[Answer]:
        """List all revisions, the newest first."""
        page: Page[Answer] = await self.use(server).revisions(caller, name)
        return page

    @get("/{name:str}/revisions/{number:int}")
    async def get_revision(
        self, server: ServerDependency, caller: CallerDependency, name: FromPath[str], number: FromPath[int]
    ) -> Answer:
        """Return a revision."""
        revision: Answer = await self.use(server).get(caller, name, number)
        return revision


class TemplateRoutes(_Routes[TemplateBody, RegisteredTemplate, TemplateTrial]):
    """The routes of templates."""

    path = "/v1/templates"
    types = (TemplateBody, RegisteredTemplate, TemplateTrial)

    def use(self, server: Server) -> Any:
        """Return the use cases of templates."""
        return server.templates


class DefinitionRoutes(_Routes[DefinitionBody, RegisteredDefinition, DefinitionTrial]):
    """The routes of definitions."""

    path = "/v1/definitions"
    types = (DefinitionBody, RegisteredDefinition, DefinitionTrial)

    def use(self, server: Server) -> Any:
        """Return the use cases of definitions."""
        return server.definitions

"""The routes of projects and tokens, and of the server itself. Tests: service/api/test_system.py."""

from __future__ import annotations

from litestar import Controller, Response, delete, get, post
from litestar.params import FromPath, JSONBody

from packager.service import prometheus
from packager.service.api import document
from packager.service.api.access import ANONYMOUS, CallerDependency, ServerDependency
from packager.service.failures import Failure
from packager.service.registry.bodies import TokenBody
from packager.service.use.answers import (
    Health,
    NewToken,
    Page,
    ProjectLimits,
    ProjectUse,
    Token,
    WhoAmI,
)


class TokenRoutes(Controller):
    """The routes of tokens."""

    path = "/v1/tokens"

    @get()
    async def list_tokens(self, server: ServerDependency, caller: CallerDependency) -> Page[Token]:
        """List the tokens of the projects in which the caller is an admin, without their texts."""
        return await server.tokens.read(caller)

    @post(status_code=201)
    async def add_token(
        self, server: ServerDependency, caller: CallerDependency, data: JSONBody[TokenBody]
    ) -> NewToken:
        """Create a token; its text is in this answer only."""
        return await server.tokens.add(caller, data)

    @delete("/{identifier:str}")
    async def remove_token(self, server: ServerDependency, caller: CallerDependency, identifier: FromPath[str]) -> None:
        """Remove a token; requests with it are refused from then on."""
        await server.tokens.remove(caller, identifier)


@get("/v1/projects")
async def list_projects(server: ServerDependency, caller: CallerDependency) -> Page[ProjectLimits]:
    """List the projects in which the caller has a role."""
    return server.project_use.read(caller)


@get("/v1/projects/{project:str}/usage")
async def project_usage(server: ServerDependency, caller: CallerDependency, project: FromPath[str]) -> ProjectUse:
    """Return how many jobs and GPUs a project has now, and its limits."""
    return await server.project_use.use(caller, project)


@get("/v1/whoami")
async def whoami(server: ServerDependency, caller: CallerDependency) -> WhoAmI:
    """Return the caller: name, key, the role in each project, `*` for all projects, and the visible projects."""
    visible = server.project_use.names(caller, "viewer")
    return WhoAmI(name=caller.name, key=caller.key, roles=dict(caller.roles), projects=visible)


@get("/healthz", opt={ANONYMOUS: True})
async def healthz() -> Health:
    """Answer that the server is running."""
    return Health(status="ok")


@get("/readyz", opt={ANONYMOUS: True}, responses={503: document.answer(Health, "Not ready")})
async def readyz(server: ServerDependency) -> Response[Health]:
    """Return whether the database and the cluster answer; the cause of a failure is in the log of the server."""
    is_ready = not server.readiness.problems
    return Response(Health(status="ok" if is_ready else "not ready"), status_code=200 if is_ready else 503)


@get("/metrics", media_type="text/plain")
async def figures(server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Return the metrics of this server for Prometheus; the caller must be a viewer of all projects."""
    if not caller.may("viewer"):
        raise Failure("forbidden", "expected a viewer of all projects")
    return Response(await server.figures.text(server.load), headers={"Content-Type": prometheus.CONTENT_TYPE})


HANDLERS = (TokenRoutes, list_projects, project_usage, whoami, healthz, readyz, figures)
"""The routes."""

"""The views in which a job is created: the choice of a definition, and its form."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from packager.service.access import permissions
from packager.service.api.access import CallerDependency, HttpRequest, ServerDependency, request_key
from packager.service.failures import Failure
from packager.service.page import form
from packager.service.page.html import redirect, respond
from packager.service.work import Owner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.registry.definitions import Definition
    from packager.service.use.answers import JobPreview


def next_key(key: str | None = None, failure: Failure | None = None) -> str:
    """Return the key for a form, so that a form that is sent twice makes one job.

    Args:
        key: The key with which the form was sent; None for a form that was not sent.
        failure: The failure of the request; None without one.

    Returns:
        The same key if the request may have created a job, or may still do so; otherwise a new key.
    """
    may_create = failure is not None and failure.status >= 500
    return key if key and may_create else secrets.token_hex(16)


@get("/new", include_in_schema=False)
async def choose(request: HttpRequest, server: ServerDependency, caller: CallerDependency) -> Response[str]:
    """Show the definitions."""
    return await respond(request, caller, "choose", items=(await server.definitions.read(caller)).items)


@get("/new/{name:str}", include_in_schema=False)
async def new(
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    name: FromPath[str],
    values_of: FromQuery[str | None] = None,
) -> Response[str]:
    """Show the form of a definition."""
    permissions.check_role(caller, "user")
    definition = await server.definitions.usable(caller, name)
    data: dict[str, str] = {}
    if values_of:
        job = await server.jobs.job(caller, values_of)
        values = {key: value for key, value in job.values.items() if key != "creator"}
        data = await server.work.run(Owner(caller.key), partial(form.data_of, definition, values))
        data["/project"] = job.project
    data["/creator"] = data.get("/creator") or caller.name
    return await _form(request, server, caller, definition, data, values_of=values_of)


@post("/new/{name:str}", include_in_schema=False)
async def sent(
    request: HttpRequest, server: ServerDependency, caller: CallerDependency, name: FromPath[str]
) -> Response[str]:
    """Create a job from a form, or show its manifests."""
    permissions.check_role(caller, "user")
    definition = await server.definitions.usable(caller, name)
    data = {key: str(value) for key, value in (await request.form()).items()}
    action = data.get("action", "create")
    if action in ("example", "replace"):
        kept = {key: text for key, text in data.items() if key in ("key", "/project", "/creator")}
        replaces = action == "example" and any(data[key].strip() for key in data.keys() - kept if key.startswith("/"))
        if not replaces:
            example = await server.work.run(Owner(caller.key), partial(form.data_of, definition, definition.example))
            data = {**example, **kept}
        return await _form(request, server, caller, definition, data, replaces=replaces)
    filled, complaints = await server.work.run(Owner(caller.key), partial(form.read, definition, data))
    if data.get("/project"):
        filled["project"] = data["/project"]
    try:
        if complaints:
            raise Failure("invalid-values", "not all inputs can be read", complaints)  # noqa: TRY301
        if action == "preview":
            preview = await server.jobs.preview(caller, filled)
            return await _form(request, server, caller, definition, data, preview=preview)
        key = await request_key(request, caller, data.get("key") or None)
        job = await server.jobs.create(caller, filled, key)
    except Failure as failure:
        if failure.status in (401, 403):
            raise
        return await _form(request, server, caller, definition, data, failure=failure)
    return redirect(f"/jobs/{job.release}")


async def _form(  # noqa: PLR0913 - the parts of the view
    request: HttpRequest,
    server: ServerDependency,
    caller: CallerDependency,
    definition: Definition,
    data: Mapping[str, str],
    *,
    preview: JobPreview | None = None,
    failure: Failure | None = None,
    values_of: str | None = None,
    replaces: bool = False,
) -> Response[str]:
    complaints = failure.complaints if failure else ()
    usable, own = server.project_use.names(caller, "user"), definition.body.project
    return await respond(
        request,
        caller,
        "new",
        failure.status if failure else 200,
        definition=definition.body,
        has_example=len(definition.example) > 1,  # more than `taskDef`
        form=await server.work.run(Owner(caller.key), partial(form.build, definition, data, complaints)),
        data=data,
        projects=[project for project in usable if own in (None, project)],
        project_errors=[item.detail for item in complaints if item.pointer == "/project"],
        key=next_key(data.get("key"), failure),
        manifests=preview.manifests if preview else None,
        warnings=preview.warnings if preview else (),
        failure=failure,
        values_of=values_of,
        replaces=replaces,
    )


HANDLERS = (choose, new, sent)
"""The routes."""

"""The views in which a job is created: the choice of a definition, and its form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from litestar import Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery

from packager.service.api.access import HttpRequest, caller_of, request_key, server_of
from packager.service.failures import Failure
from packager.service.page import form, inputs
from packager.service.page.html import redirect, respond
from packager.service.page.keys import next_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.service.access.tokens import Caller
    from packager.service.page.inputs import Sent
    from packager.service.registry.definitions import Definition
    from packager.service.use.answers import JobPreview


@get("/new", include_in_schema=False)
async def _choose(request: HttpRequest, state: State) -> Response[str]:
    items = (await server_of(state).definitions.read(await caller_of(request))).items
    return await respond(request, "choose", items=items)


@get("/new/{name:str}", include_in_schema=False)
async def _new(
    request: HttpRequest,
    state: State,
    name: FromPath[str],
    values_of: FromQuery[str | None] = None,
) -> Response[str]:
    caller = await caller_of(request, "user")
    definition = await server_of(state).definitions.usable(caller, name)
    data: dict[str, str] = {}
    if values_of:
        job = await server_of(state).jobs.job(caller, values_of)
        values = {key: value for key, value in job.values.items() if key != "creator"}
        data = await asyncio.to_thread(inputs.data_of, definition, values)
        data["/project"] = job.project
    data.setdefault("/creator", caller.name)
    return await _form(request, definition, data, values_of=values_of)


@post("/new/{name:str}", include_in_schema=False)
async def _sent(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    caller = await caller_of(request, "user")
    definition = await server_of(state).definitions.usable(caller, name)
    data = {key: str(value) for key, value in (await request.form()).items()}
    action = data.get("action", "create")
    if action.startswith("more:"):
        count = f"count:{action.removeprefix('more:')}"
        data[count] = str(int(data[count]) + 1) if data.get(count, "").isdecimal() and len(data[count]) < 3 else "2"
        return await _form(request, definition, data, more=action.removeprefix("more:"))
    if action in ("example", "replace"):
        kept = {key: text for key, text in data.items() if key in ("key", "/project", "/creator")}
        replaces = action == "example" and any(data[key].strip() for key in data.keys() - kept if key.startswith("/"))
        example = {} if replaces else await asyncio.to_thread(inputs.data_of, definition, definition.example)
        return await _form(request, definition, {**(data if replaces else example), **kept}, replaces=replaces)
    sent = await asyncio.to_thread(inputs.read, definition, data)
    filled = {**sent.filled, **({"project": data["/project"]} if data.get("/project") else {})}
    if sent.complaints:
        failure = Failure("invalid-values", "not all inputs can be read", sent.complaints)
        return await _form(request, definition, data, sent, failure=failure)
    try:
        if action == "preview":
            preview = await server_of(state).jobs.preview(caller, filled)
            return await _form(request, definition, data, sent, preview=preview)
        key = await request_key(request, caller, data.get("key") or None)
        job = await server_of(state).jobs.create(caller, filled, key)
    except Failure as failure:
        if failure.status in (401, 403):
            raise
        return await _form(request, definition, data, sent, failure=failure)
    return redirect(f"/jobs/{job.release}")


async def _form(  # noqa: PLR0913 - the parts of the view
    request: HttpRequest,
    definition: Definition,
    data: Mapping[str, str],
    sent: Sent | None = None,
    *,
    preview: JobPreview | None = None,
    failure: Failure | None = None,
    values_of: str | None = None,
    more: str | None = None,
    replaces: bool = False,
) -> Response[str]:
    complaints = failure.complaints if failure else ()
    return await respond(
        request,
        "new",
        failure.status if failure else 200,
        role="user",
        definition=definition.body,
        has_example=len(definition.example) > 1,  # more than `taskDef`
        form=await asyncio.to_thread(form.build, definition, data, complaints, sent),
        data=data,
        projects=_projects(request, await caller_of(request, "user"), definition),
        project_errors=[item.detail for item in complaints if item.pointer == "/project"],
        key=next_key(data.get("key"), failure),
        manifests=preview.manifests if preview else None,
        warnings=preview.warnings if preview else (),
        failure=failure,
        values_of=values_of,
        more=more,
        replaces=replaces,
    )


def _projects(request: HttpRequest, caller: Caller, definition: Definition) -> list[str]:
    """Return the projects in which a caller can create jobs of a definition."""
    usable = server_of(request.app.state).project_use.names(caller, "user")
    own = definition.body.project
    return usable if own is None else [project for project in usable if project == own]


HANDLERS = (_choose, _new, _sent)
"""The routes."""

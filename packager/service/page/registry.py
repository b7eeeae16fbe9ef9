"""The views of definitions and templates: lists, revisions, and the forms to register."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Response, get, post
from litestar.datastructures import State
from litestar.params import FromPath, FromQuery

from packager.package.options import OPTIONS
from packager.service.access import permissions
from packager.service.api.access import HttpRequest, caller_of, expected_revision, server_of
from packager.service.complaints import Complaint, counted
from packager.service.failures import Failure
from packager.service.page import revisions, starters
from packager.service.page.html import redirect, respond
from packager.service.registry.bodies import DefinitionBody, TemplateBody, as_flag, checked
from packager.service.registry.packages.content import PackageBody

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from typing import TypeVar

    from packager.service.use.answers import DefinitionTrial, RegisteredDefinition, RegisteredTemplate

    Registered = TypeVar("Registered", RegisteredDefinition, RegisteredTemplate)

_TEMPLATE_KEYS = ("template", "description", "deprecated")
_PACKAGE_KEYS = PackageBody.__struct_fields__
"""The inputs for the package that a definition names."""

_ANY_NAME = "definition"
"""The name with which the rest of a definition is checked if its own name is wrong."""

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


@get("/new-definition", include_in_schema=False)
async def _new_definition(request: HttpRequest, state: State) -> Response[str]:
    names = [item.name for item in (await server_of(state).templates.read(await caller_of(request))).items]
    return await _definition_form(request, state, starters.definition(names), is_example=True)


@get("/definitions/{name:str}/edit", include_in_schema=False)
async def _edit_definition(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    item = await server_of(state).definitions.definition(await caller_of(request), name)
    data = revisions.texts(item, _DEFINITION_KEYS) | _package_inputs(item.package)
    data |= {"append_uuid": "1" if as_flag(item.append_uuid) else "", "revision": str(item.revision)}
    return await _definition_form(request, state, data, name)


def _package_inputs(package: PackageBody | None) -> dict[str, str]:
    """Return the texts in the inputs for a package."""
    if package is None:
        return dict.fromkeys(_PACKAGE_KEYS, "")
    site = "\n".join(f"{key}={value}" for key, value in package.site.items())
    texts = (package.source, package.overlay or "", " ".join(package.options), site)
    return dict(zip(_PACKAGE_KEYS, texts, strict=True))


def _package_of_inputs(data: Mapping[str, str]) -> dict[str, object] | None:
    """Return the package in the inputs of a form; None if they are empty."""
    source, overlay, _, site = (data.get(key, "").strip() for key in _PACKAGE_KEYS)
    names = _chosen_options(data)
    if not any((source, overlay, names, site)):
        return None
    lines = (line.partition("=") for line in site.splitlines() if line.strip())
    values = {key.strip(): value.strip() for key, _, value in lines}
    return dict(zip(_PACKAGE_KEYS, (source, overlay or None, names, values), strict=True))


def _chosen_options(data: Mapping[str, str]) -> list[str]:
    """Return the site options in the inputs of a form, in their order."""
    return [*data.get("options", "").split(), *(key[7:] for key in data if key.startswith("option:"))]


async def _definition_form(  # noqa: PLR0913, PLR0917 - what the view shows
    request: HttpRequest,
    state: State,
    data: Mapping[str, str],
    name: str | None = None,
    failure: Failure | None = None,
    trial: DefinitionTrial | None = None,
    *,
    is_example: bool = False,
    newer: RegisteredDefinition | None = None,
) -> Response[str]:
    caller, definitions = await caller_of(request), server_of(state).definitions
    templates = (await server_of(state).templates.read(caller)).items
    chosen = _chosen_options(data)
    source = data.get("source", "").strip()
    parts = await definitions.package_parts(caller, source) if source else {}
    overlay = data.get("overlay", "").strip() or next(iter(parts), "")
    has = parts.get(overlay)
    offered = await definitions.packages(caller)
    return await respond(
        request,
        "definition-form",
        failure.status if failure else 200,
        role="developer",
        data={**dict.fromkeys((*_DEFINITION_KEYS, *_PACKAGE_KEYS, "name"), ""), **data},
        name=name,
        is_example=is_example,
        projects=server_of(state).project_use.names(caller, "developer"),
        sources=offered.sources,
        overlays=tuple(parts) or offered.overlays,
        package=f"{source}, {overlay}" if has is not None else "",
        options=dict.fromkeys(chosen, "not in this package")
        | {option.name: option.summary for option in OPTIONS if has is None or option.name in has},
        chosen_options=chosen,
        templates=[
            item.name for item in templates if not item.deprecated or item.name == data.get("task_template_name")
        ],
        failure=failure,
        newer=newer,
        **_errors(failure, (*_DEFINITION_KEYS, *_PACKAGE_KEYS, "name")),
        trial=trial,
    )


LABELS = {
    "task_template_name": "Template",
    "source": "Package",
    "options": "Site options",
    "user_values_description": "Values that users fill in",
    "user_values_example": "Example",
    "system_values": "System values",
}
"""The labels of fields that are not called as their keys."""


def _errors(failure: Failure | None, keys: Sequence[str]) -> dict[str, object]:
    """Return the messages about a form by field, with their lines, and their summary with the field of each message."""
    errors: dict[str, list[str]] = {key: [] for key in keys}
    lines: dict[str, list[int]] = {key: [] for key in keys}
    summary = []
    for complaint in failure.complaints if failure else ():
        key = _field_of(complaint.pointer)
        text = f"{complaint.detail}; {complaint.hint}" if complaint.hint else complaint.detail
        if key in errors:
            errors[key].append(text)
            lines[key] += [complaint.line] if complaint.line else []
        label = LABELS.get(key, key.capitalize())
        summary.append((key, f"{label}: {text}", complaint.line) if key in errors else ("", text, 0))
    return {"errors": errors, "lines": lines, "summary": summary}


def _field_of(pointer: str) -> str:
    """Return the name of the field for a place in a body; empty for the body as a whole."""
    first, *below = pointer.split("/")[1:] or [""]
    if first == "package":
        return next((step for step in below if step in _PACKAGE_KEYS), "source")
    return first


@post("/new-definition", include_in_schema=False)
async def _add_definition(request: HttpRequest, state: State) -> Response[str]:
    return await _register_definition(request, state, None)


@post("/definitions/{name:str}/edit", include_in_schema=False)
async def _change_definition(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    return await _register_definition(request, state, name)


async def _register_definition(request: HttpRequest, state: State, name: str | None) -> Response[str]:
    caller = await caller_of(request, "developer")
    data = await _inputs(request, name)
    try:
        values = {key: data.get(key, "") for key in (*_DEFINITION_KEYS, "name")}
        others: dict[str, object] = {
            "append_uuid": bool(data.get("append_uuid")),
            "project": data.get("project") or None,
        }
        others |= {"package": _package_of_inputs(data), "task_template_name": data.get("task_template_name") or None}
        if data.get("action") == "choices":
            return await _definition_form(request, state, data, name)
        body = await _definition_body(request, state, {**values, **others})
        if data.get("action") == "trial":
            trial = await server_of(state).definitions.trial(caller, body)
            return await _definition_form(request, state, data, name, trial=trial)
        if name is None:
            added = await server_of(state).definitions.add(caller, body)
            return redirect(f"/definitions/{added.name}")
        expected = expected_revision(data.get("revision"))
        await server_of(state).definitions.change(caller, name, body, expected)
    except Failure as failure:
        newer = None
        if name and failure.kind == "revision-mismatch":
            newer = await server_of(state).definitions.definition(caller, name)
            data["revision"] = str(newer.revision)
        return await _definition_form(request, state, data, name, _shown_in_form(failure), newer=newer)
    return redirect(f"/definitions/{name}")


async def _definition_body(request: HttpRequest, state: State, values: dict[str, object]) -> DefinitionBody:
    """Return the inputs of a form as a body. Raises Failure, with all problems, also those of the other inputs."""
    try:
        return checked(values, DefinitionBody)
    except Failure as failure:
        wrong = {_top(complaint) for complaint in failure.complaints}
        if "package" in wrong:  # without it, the meaning of the other inputs is not known
            raise
        rest = {key: value for key, value in values.items() if key not in wrong} | {"name": _ANY_NAME}
        others = await server_of(state).definitions.problems(await caller_of(request), checked(rest, DefinitionBody))
        complaints = [*failure.complaints, *(complaint for complaint in others if _top(complaint) not in wrong)]
        raise Failure("invalid-body", f"{counted(complaints)} in the form", complaints) from None


def _top(complaint: Complaint) -> str:
    """Return the key of the body that a complaint is about."""
    return complaint.pointer.split("/")[1] if complaint.pointer else ""


async def _inputs(request: HttpRequest, name: str | None) -> dict[str, str]:
    """Return the inputs of a form; a name in the path replaces the input `name`."""
    data = {key: str(value) for key, value in (await request.form()).items()}
    return data if name is None else {**data, "name": name}


def _shown_in_form(failure: Failure) -> Failure:
    """Return the failure to show in a form. Raises Failure if the failure has a separate view."""
    if failure.status in (401, 403, 404):
        raise failure
    return failure


@post("/definitions/{name:str}/remove", include_in_schema=False)
async def _remove_definition(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    await server_of(state).definitions.remove(await caller_of(request), name)
    return redirect("/definitions")


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


@get("/new-template", include_in_schema=False)
async def _new_template(request: HttpRequest) -> Response[str]:
    return await _template_form(request, starters.TEMPLATE)


@get("/templates/{name:str}/edit", include_in_schema=False)
async def _edit_template(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    item = await server_of(state).templates.template(await caller_of(request), name)
    data = {"template": item.template, "description": item.description, "revision": str(item.revision)}
    return await _template_form(request, data | ({"deprecated": "1"} if item.deprecated else {}), name)


async def _template_form(  # noqa: PLR0913 - what the view shows
    request: HttpRequest,
    data: Mapping[str, str],
    name: str | None = None,
    failure: Failure | None = None,
    trial: Mapping[str, list[str]] | None = None,
    *,
    newer: RegisteredTemplate | None = None,
) -> Response[str]:
    permissions.check_admin(await caller_of(request), None)
    return await respond(
        request,
        "template-form",
        failure.status if failure else 200,
        role="admin",
        data={**dict.fromkeys((*_TEMPLATE_KEYS, "name", "revision"), ""), **data},
        name=name,
        failure=failure,
        newer=newer,
        **_errors(failure, (*_TEMPLATE_KEYS, "name")),
        trial=trial,
    )


@post("/new-template", include_in_schema=False)
async def _add_template(request: HttpRequest, state: State) -> Response[str]:
    return await _register_template(request, state, None)


@post("/templates/{name:str}/edit", include_in_schema=False)
async def _change_template(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    return await _register_template(request, state, name)


async def _register_template(request: HttpRequest, state: State, name: str | None) -> Response[str]:
    caller = await caller_of(request, "admin")
    data = await _inputs(request, name)
    try:
        values = {key: data.get(key, "") for key in ("name", "template", "description")}
        body = checked({**values, "deprecated": bool(data.get("deprecated"))}, TemplateBody)
        trial = await server_of(state).templates.trial(caller, body)
        if data.get("action") == "trial" or trial.problems:
            failure = None
            if trial.problems:
                complaints = [
                    Complaint("/template", item.detail, item.hint, line=item.line or 0) for item in trial.problems
                ]
                text = f"{counted(complaints)} in the objects of the template, tried with invented values"
                failure = Failure("invalid-template", text, complaints)
            return await _template_form(request, data, name, failure, trial.definitions)
        if name is None:
            added = await server_of(state).templates.add(caller, body)
            return redirect(f"/templates/{added.name}")
        expected = expected_revision(data.get("revision"))
        await server_of(state).templates.change(caller, name, body, expected)
    except Failure as failure:
        newer = None
        if name and failure.kind == "revision-mismatch":
            newer = await server_of(state).templates.template(caller, name)
            data["revision"] = str(newer.revision)
        return await _template_form(request, data, name, _shown_in_form(failure), newer=newer)
    return redirect(f"/templates/{name}")


@post("/templates/{name:str}/remove", include_in_schema=False)
async def _remove_template(request: HttpRequest, state: State, name: FromPath[str]) -> Response[str]:
    try:
        await server_of(state).templates.remove(await caller_of(request), name)
    except Failure as failure:
        if failure.status != 409:
            raise
        return await respond(request, "error", failure.status, role="admin", failure=failure)
    return redirect("/templates")


HANDLERS = (
    _definitions,
    _definition,
    _new_definition,
    _edit_definition,
    _add_definition,
    _change_definition,
    _remove_definition,
    _templates,
    _template,
    _new_template,
    _edit_template,
    _add_template,
    _change_template,
    _remove_template,
)
"""The routes."""

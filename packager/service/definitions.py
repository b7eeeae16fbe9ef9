"""Checks templates and definitions when they are registered, and makes the objects of a job from filled values."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from packager.base.names import is_label_value
from packager.base.problems import show
from packager.base.values import Value
from packager.kubernetes.manifest import mapping
from packager.service import description, policy, values
from packager.service.bodies import DefinitionBody, as_flag
from packager.service.complaints import Complaint, of_fault, of_problem
from packager.service.description import Group, Items

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from packager.service.policy import Accepted, Site
    from packager.service.rendering import Renderer

_TRIAL = "trial-000000"
"""The release with which the example of a definition is filled in."""


class Definition(Value, frozen=True):
    """A task definition, read.

    Attributes:
        body: As it was registered.
        described: What users fill in.
        example: Values that satisfy it.
        system: The values that users cannot set.
    """

    body: DefinitionBody
    described: Group
    example: Mapping[str, Any]
    system: Mapping[str, Any]

    @property
    def reserved(self) -> dict[str, str]:
        """The top-level keys that users may not set, each with the reason."""
        keys = dict.fromkeys((values.ALWAYS_SYSTEM, *self.system), "is set by the definition, in system_values")
        return {**keys, "global": values.RESERVED["global"], "configs": values.RESERVED["configs"]}

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of filled values."""
        return description.json_schema(self.described, self.example, self.body.name)


class Request(Value, frozen=True):
    """Filled values, and what the service knows beside them.

    Attributes:
        filled: What the user has filled in.
        creator: Who the job is for.
        release: The job's name.
    """

    filled: Mapping[str, Any]
    creator: str
    release: str


def final_name(body: DefinitionBody) -> str:
    """Return the name of a definition: with eight hexadecimal digits, if `append_uuid` asks for them."""
    return f"{body.name}-{secrets.token_hex(4)}" if as_flag(body.append_uuid) else body.name


def read(body: DefinitionBody) -> tuple[Definition | None, list[Complaint]]:
    """Return a definition as it is used, or None and everything that is wrong with it, without its template."""
    described, problems = description.read(body.user_values_description)
    complaints = [of_problem(problem, "user_values_description") for problem in problems]
    texts = {"user_values_example": body.user_values_example, "system_values": body.system_values}
    read_texts: dict[str, Mapping[str, Any]] = {}
    for key, text in texts.items():
        document, problems = description.read_mapping(text, key)
        complaints += [of_problem(problem, key) for problem in problems]
        read_texts[key] = mapping(document.data)
    if as_flag(body.append_uuid) is None:
        complaints.append(Complaint("/append_uuid", f"expected 0, 1, true or false, found {show(body.append_uuid)}"))
    for key, value in {"application": body.application, "creator": body.creator}.items():
        if not is_label_value(value):
            complaints.append(Complaint(f"/{key}", f"expected the value of a label, found {show(value)}"))
    complaints += [
        Complaint("/system_values", f"the key {key!r} cannot be set here: it {reason}")
        for key, reason in values.RESERVED.items()
        if key in read_texts["system_values"]
    ]
    if described is None or complaints:
        return None, complaints
    definition = Definition(body, described, read_texts["user_values_example"], read_texts["system_values"])
    complaints += _described_but_reserved(definition)
    complaints += [
        Complaint("/user_values_example", f"{_place(fault.location)}: {fault.message}", fault.hint)
        for fault in (
            *description.faults(definition.described, definition.example, reserved=definition.reserved),
            *values.label_faults(definition.example),
        )
    ]
    return (None, complaints) if complaints else (definition, [])


def _described_but_reserved(definition: Definition) -> Iterator[Complaint]:
    for key, entry in definition.described.entries:
        if reason := definition.reserved.get(key):
            yield Complaint("/user_values_description", f"users cannot fill in {key!r}: it {reason}")
        if key == "project":
            yield Complaint("/user_values_description", "users cannot fill in 'project': it says where a job belongs")
        if key == "endpoints" and not isinstance(entry, Items):
            yield Complaint("/user_values_description", "endpoints: expected a list of the kinds of endpoints")
        if key == "process" and not isinstance(entry, Group | description.FreeMapping):
            yield Complaint("/user_values_description", "process: expected a mapping")


def _place(location: tuple[str | int, ...]) -> str:
    return ".".join(map(str, location)) or "the example"


def trial(definition: Definition, template: str, renderer: Renderer, site: Site) -> tuple[Accepted, list[Complaint]]:
    """Return what the definition's example makes of the template, and what is wrong with it."""
    creator = str(definition.example.get("creator") or definition.body.creator or "trial")
    accepted, complaints = objects(definition, template, Request(definition.example, creator, _TRIAL), renderer, site)
    return accepted, [Complaint("", f"with the example filled in: {item.detail}", item.hint) for item in complaints]


def value_complaints(definition: Definition, filled: Mapping[str, Any]) -> list[Complaint]:
    """Return everything that is wrong with filled values, before the template is filled in."""
    faults = description.faults(definition.described, filled, reserved=definition.reserved)
    places = {fault.location for fault in faults}
    faults += [fault for fault in values.label_faults(filled) if fault.location not in places]
    return [of_fault(fault) for fault in faults]


def objects(
    definition: Definition, template: str, request: Request, renderer: Renderer, site: Site
) -> tuple[Accepted, list[Complaint]]:
    """Return the objects of a job, and why there are none.

    Args:
        definition: The definition.
        template: The text of its template.
        request: The filled values, without faults.
        renderer: What fills in templates.
        site: What the administrator has decided.
    """
    filled, body = request.filled, definition.body
    application = str(filled.get("name") or body.application or "")
    rendered = renderer.render(
        template,
        values.template_values(
            filled, definition.system, values.Names(request.release, body.name, body.application, request.creator)
        ),
    )
    if rendered.problems:
        return policy.Accepted(), [_of_template(problem) for problem in rendered.problems]
    accepted = policy.accept(rendered.objects, request.release, body.application or application, site)
    return accepted, [Complaint("", problem) for problem in accepted.problems]


def _of_template(problem: Any) -> Complaint:
    place = f"{problem.file}, line {problem.line}: " if problem.line else f"{problem.file}: "
    return Complaint("", place + problem.message, problem.hint)

"""Checks definitions at registration, and renders the objects of a job from filled values."""

from __future__ import annotations

import re
import secrets
import shlex
from typing import TYPE_CHECKING, Any

from packager.base.names import is_label_value
from packager.base.problems import show
from packager.base.values import Value, replace
from packager.kubernetes.manifest import listing, mapping
from packager.service.failures import Complaint, of_fault, of_problem
from packager.service.registry import description, policy, template_values
from packager.service.registry.bodies import DefinitionBody, as_flag
from packager.service.registry.description import Group, Items, Leaf
from packager.service.registry.policy import Accepted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.problems import Fault
    from packager.base.values import Json
    from packager.base.yamlio import Location
    from packager.kubernetes.objects import Object
    from packager.service.registry.policy import Site
    from packager.service.registry.rendering import FilledTemplate, Renderer

_TRIAL = "trial-000000"
"""The release for rendering the example of a definition."""

_OPTIONAL_HINT = "let the template do without it (`is defined`, `or`, `default`), or describe it as (Required)"


class Definition(Value, frozen=True):
    """A task definition, with its texts parsed."""

    body: DefinitionBody
    described: Group
    example: Mapping[str, Json]
    system: Mapping[str, Json]
    secret_places: tuple[tuple[str, ...], ...]  # the places of the filled values that are secrets
    reserved: Mapping[str, str]  # the reason for each top-level key that users may not set


class Request(Value, frozen=True):
    """Filled values, with the creator and the name of the job."""

    filled: Mapping[str, Json]
    creator: str
    release: str


def final_name(body: DefinitionBody) -> str:
    """Return the name of a definition, with eight hexadecimal digits if `append_uuid` is set."""
    return f"{body.name}-{secrets.token_hex(4)}" if as_flag(body.append_uuid) else body.name


def read(body: DefinitionBody) -> tuple[Definition | None, list[Complaint]]:
    """Return a parsed definition, or None and all complaints that do not depend on the template."""
    described, problems = description.read(body.user_values_description)
    complaints = [of_problem(problem, "user_values_description") for problem in problems]
    read_texts: dict[str, Mapping[str, Json]] = {}
    for key in ("user_values_example", "system_values"):
        document, problems = description.read_mapping(getattr(body, key), key)
        complaints += [of_problem(problem, key) for problem in problems]
        read_texts[key] = mapping(document.data)
    if as_flag(body.append_uuid) is None:
        complaints.append(Complaint("/append_uuid", f"expected 0, 1, true or false, found {show(body.append_uuid)}"))
    for key, value in {"application": body.application, "creator": body.creator}.items():
        if not is_label_value(value):
            message = f"expected a name such as nightly, found {show(value)}"
            complaints.append(Complaint(f"/{key}", message, template_values.LABEL_FORM))
    complaints += [
        Complaint("/system_values", f"the key {key!r} cannot be set here: it {reason}")
        for key, reason in template_values.RESERVED.items()
        if key in read_texts["system_values"]
    ]
    if described is None or complaints:
        return None, complaints
    system = read_texts["system_values"]
    reserved = dict.fromkeys((template_values.ALWAYS_SYSTEM, *system), "is set by the definition, in system_values")
    reserved |= {key: template_values.RESERVED[key] for key in ("global", "configs")}
    places = description.secret_places(described)
    definition = Definition(body, described, read_texts["user_values_example"], system, places, reserved)
    complaints += _described_but_reserved(definition)
    if complaints:
        return None, complaints
    complaints += [
        Complaint("/user_values_example", f"{_place(fault.location)}: {fault.message}", fault.hint)
        for fault in _faults(definition, definition.example)
    ]
    complaints += [
        Complaint("/user_values_example", f"{_place(place)} is a secret: expected {template_values.MASK}")
        for place in definition.secret_places
        if template_values.value_at(definition.example, place) not in (None, template_values.MASK)
    ]
    return (None, complaints) if complaints else (definition, [])


def _faults(definition: Definition, filled: Mapping[str, Json]) -> list[Fault]:
    """Return all faults of filled values that are found without rendering."""
    faults = description.faults(definition.described, filled, reserved=definition.reserved)
    places = {fault.location for fault in faults}
    return [*faults, *(fault for fault in template_values.label_faults(filled) if fault.location not in places)]


_ENTRIES: dict[str, tuple[Any, str]] = {
    "endpoints": (Items, "a list of the kinds of endpoints"),
    "process": (Group | description.FreeMapping, "a mapping"),
}


def _described_but_reserved(definition: Definition) -> Iterator[Complaint]:
    for key, entry in definition.described.entries.items():
        if reason := definition.reserved.get(key):
            yield Complaint("/user_values_description", f"users cannot fill in {key!r}: it {reason}")
        if key == "project":
            yield Complaint("/user_values_description", "users cannot fill in 'project': it says where a job belongs")
        kinds, expected = _ENTRIES.get(key, (object, ""))
        if not isinstance(entry, kinds):
            yield Complaint("/user_values_description", f"{key}: expected {expected}")


def _place(location: tuple[str | int, ...]) -> str:
    return ".".join(map(str, location)) or "the example"


def example_request(definition: Definition) -> Request:
    """Return the request for a job with the example of a definition."""
    creator = str(definition.example.get("creator") or definition.body.creator or "trial")
    return Request(definition.example, creator, _TRIAL)


def trial(definition: Definition, template: str, renderer: Renderer, site: Site) -> Accepted:
    """Render the example of a definition, and return the objects, or the complaints.

    The template is also rendered without the optional values of the example, which users may leave out; and with marks
    in place of its texts, to warn about those that become a part of code.
    """
    request = example_request(definition)
    accepted = objects(definition, template, request, renderer, site, is_example=True)
    if told := accepted.complaints:
        return Accepted(
            complaints=[replace(item, detail=f"with the example filled in: {item.detail}") for item in told]
        )
    required = replace(request, filled=description.without_optional(definition.described, request.filled))
    if required.filled != request.filled:
        complaints = [
            Complaint("", f"with only the required values filled in: {item.detail}", item.hint or _OPTIONAL_HINT)
            for item in objects(definition, template, required, renderer, site, is_example=True).complaints
        ]
        if complaints:
            return Accepted(complaints=complaints)
    marks: dict[str, str] = {}
    marked = _marked(dict(definition.example), definition.described, (), marks)
    rendered = _rendered(definition, template, replace(request, filled=mapping(marked)), renderer)
    return replace(accepted, remarks=list(_in_code(rendered.objects, marks)))


def value_complaints(definition: Definition, filled: Mapping[str, Json]) -> list[Complaint]:
    """Return all complaints about filled values that are found without rendering."""
    return [of_fault(fault) for fault in _faults(definition, filled)]


def objects(  # noqa: PLR0913 - what makes the objects
    definition: Definition,
    template: str,
    request: Request,
    renderer: Renderer,
    site: Site,
    *,
    is_example: bool = False,
) -> Accepted:
    """Return the objects of a job, or the complaints about the template and the policy; see `policy.accept`."""
    rendered = _rendered(definition, template, request, renderer)
    if rendered.problems:
        places = (f"{item.file}, line {item.line}: " if item.line else f"{item.file}: " for item in rendered.problems)
        pairs = zip(places, rendered.problems, strict=True)
        return Accepted(complaints=[Complaint("", place + item.message, item.hint) for place, item in pairs])
    application = definition.body.application or str(request.filled.get("name") or "")
    return policy.accept(rendered.objects, request.release, application, site, is_example=is_example)


def _rendered(definition: Definition, template: str, request: Request, renderer: Renderer) -> FilledTemplate:
    names = template_values.Names(request.release, definition.body.name, definition.body.application, request.creator)
    filled = template_values.without(request.filled, definition.secret_places)
    return renderer.render(template, template_values.template_values(filled, definition.system, names))


# values that become a part of code

_SAFE_TYPES = ("integer", "number", "boolean", "quantity", description.SECRET)
_LABELS = ("taskDef", "name", "creator")
_MARK = "mlpack{}mark'\"$(x)"
_CODE_OPTION = re.compile(r"-[A-Za-z]*[ceE][a-z]*|--(?:command|eval|exec|execute|run)")
_SCRIPT_KEY = re.compile(r".*\.(?:sh|bash|zsh|ksh|py|pl|rb|js|lua|r|R)", re.DOTALL)
_HINT = "quote it with the filter sh, pass it in an environment variable, or describe it as an integer"


def _marked(value: Json, described: object, here: Location, marks: dict[str, str]) -> Json:
    """Return a value with a mark in place of each text that may be anything, and add the marks with their places."""
    if isinstance(value, dict):
        entries = described.entries if isinstance(described, Group) else {}
        return {
            key: item if not here and key in _LABELS else _marked(item, entries.get(key), (*here, key), marks)
            for key, item in value.items()
        }
    if isinstance(value, list):
        kinds = [described.kind_of(item) if isinstance(described, Items) else None for item in value]
        return [
            _marked(item, kind, (*here, index), marks)
            for index, (item, kind) in enumerate(zip(value, kinds, strict=True))
        ]
    is_safe = isinstance(described, Leaf) and described.type in _SAFE_TYPES
    if value is None or is_safe or here[-1] == "type":
        return value
    return marks.setdefault(_place(here), _MARK.format(len(marks)))


def _in_code(items: Sequence[Object], marks: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each mark in a script or in an argument with code that is not a word of the filter `sh`."""
    for place, text in (code for item in items for code in _code(item, str(item.get("kind")))):
        for name, mark in marks.items():
            if mark.partition("'")[0] in text.replace(shlex.quote(mark), ""):
                message = f"{name} becomes a part of the code in {place}: a value such as $(…) would run there"
                yield f"{message}; {_HINT}"


def _code(value: Json, here: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each script, and of each argument after an option such as -c, in an object."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _code(item, f"{here}[{index}]")
    elif isinstance(value, dict):
        for key, text in mapping(value.get("data")).items() if here == "ConfigMap" else ():
            if isinstance(text, str) and (text.startswith("#!") or _SCRIPT_KEY.fullmatch(key)):
                yield f"ConfigMap.data.{key}", text
        places = [(key, index) for key in ("command", "args") for index in range(len(listing(value.get(key))))]
        words = [str(listing(value.get(key))[index]) for key, index in places]
        for (key, index), word, before in zip(places, words, ["", *words], strict=False):
            if _CODE_OPTION.fullmatch(before):
                yield f"{here}.{key}[{index}]", word
        for key, item in value.items():
            yield from _code(item, f"{here}.{key}")

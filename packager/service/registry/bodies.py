"""The types of request bodies of the API. Tests: service/registry/test_definitions.py."""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from packager.base.fields import anchored
from packager.base.names import LABEL_VALUE
from packager.base.values import Fields, FieldsError, Meta, convert, schema
from packager.modelspec.validation import validate
from packager.service.config import DnsLabel
from packager.service.failures import Failure, counted, of_fault

FieldsType = TypeVar("FieldsType", bound=Fields)

_LETTERS = "letters, digits and - _ . between them"

Name = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=54,
        pattern=anchored(LABEL_VALUE),
        title=f"a name of {_LETTERS}, such as train-resnet (at most 54)",
    ),
]
"""The name of a template or a definition: it becomes a label value, and `append_uuid` adds nine characters."""

Prose = Annotated[str, Meta(max_length=4096)]
Yaml = Annotated[str, Meta(max_length=64 << 10, title="a text with YAML")]
TemplateText = Annotated[str, Meta(max_length=256 << 10, title="the template: Jinja over a list of Kubernetes objects")]


class TemplateBody(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task template to register."""

    name: Name
    template: TemplateText
    description: Prose = ""
    deprecated: bool = False


class DefinitionBody(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task definition to register, over a template; three of its fields contain YAML as text."""

    name: Name
    task_template_name: Name
    user_values_description: Yaml
    user_values_example: Yaml
    system_values: Yaml = ""
    creator: Annotated[str, Meta(max_length=63)] = ""
    description: Prose = ""
    application: Annotated[str, Meta(max_length=63)] = ""
    append_uuid: bool | int | str = False
    project: DnsLabel | None = None


class NamedDefinition(DefinitionBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A definition with its final name, which may be longer than a name in a request."""

    name: str


def checked(values: dict[str, object], kind: type[FieldsType]) -> FieldsType:
    """Return the inputs of a form as a body. Raises Failure, with a complaint in words about each wrong value."""
    try:
        return convert(values, kind)
    except FieldsError:
        complaints = [of_fault(fault) for fault in validate(values, schema(kind))]
        raise Failure("invalid-body", f"{counted(complaints)} in the form", complaints) from None


def as_flag(value: object) -> bool | None:
    """Return the meaning of `append_uuid`: 0, 1, true, false, or one of these as text; None for other values."""
    words = {"0": False, "1": True, "false": False, "true": True, "": False}
    return words.get(str(value).lower())


class TokenBody(Fields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to create."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=63,
            pattern=anchored(LABEL_VALUE),
            title=f"a name of {_LETTERS}, such as ci-runner (at most 63)",
        ),
    ]
    role: Literal["viewer", "user", "developer", "admin"]
    project: DnsLabel | None = None
    days: Annotated[int, Meta(ge=1, le=3650, title="a whole number of days from 1 to 3650, such as 90")] | None = None

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.registry.bodies import DefinitionBody
from packager.service.registry.definitions import read, value_complaints
from packager.service.registry.packages import env
from packager.service.registry.packages.content import PackageBody, PackageKey, PackageOrigin, ValueType

if TYPE_CHECKING:
    from packager.base.values import Json


def key(name: str, default: str = "", kind: ValueType = "string", **more: bool) -> PackageKey:
    return PackageKey(
        name=name, default=default, description="", type=kind, **{"required": False, "fixed": False, **more}
    )


KEYS = [
    key("REGISTRY", "localhost", fixed=True),
    key("IMAGE", "p:1", fixed=True),
    key("WORKERS", "2", "number", fixed=True, of_package=True),
    key("OUTPUT_DIR", "ROOT/p/output"),
    key("STEPS", "10", "number"),
    key("FAST", "true", "boolean"),
    key("HF_TOKEN", "", "secret", required=True),
]
ORIGIN = PackageOrigin(source="p", name="p", digest="sha256:0", overlay="o", options=[], keys=KEYS)


def body(**changes: Any) -> DefinitionBody:
    return DefinitionBody(**{"name": "d", "package": PackageBody(source="p"), **changes})


def details(**changes: Any) -> list[tuple[str, str]]:
    definition, complaints = read(body(**changes), ORIGIN)
    assert (definition is None) == bool(complaints)
    return [(item.pointer, item.detail) for item in complaints]


def wrong(filled: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    definition, _ = read(body(**changes), ORIGIN)
    assert definition is not None
    complaints = value_complaints(definition, {"taskDef": "d", "env": {"HF_TOKEN": "t", **filled}})
    return [(item.pointer, item.detail) for item in complaints]


def test_definition_without_description_uses_keys_of_the_package() -> None:
    definition, _ = read(body(), ORIGIN)
    assert definition is not None
    properties: Any = definition.json_schema["properties"]
    schema = properties["env"]
    assert schema["required"] == ["HF_TOKEN"]
    assert schema["properties"]["HF_TOKEN"]["writeOnly"] is True
    assert schema["properties"].keys() == {"OUTPUT_DIR", "STEPS", "FAST", "HF_TOKEN"}
    example = {"OUTPUT_DIR": "ROOT/p/output", "STEPS": 10, "FAST": True, "HF_TOKEN": "***"}
    assert definition.example == {"taskDef": "d", "env": example}


def test_split_separates_values_and_secrets() -> None:
    system: dict[str, Json] = {"env": {"REGISTRY": "r.example"}}
    values, secrets = env.split(ORIGIN, system, {"env": {"STEPS": 1.5, "FAST": False, "HF_TOKEN": "t"}})
    assert values == {
        "REGISTRY": "r.example",
        "IMAGE": "p:1",
        "WORKERS": "2",
        "OUTPUT_DIR": "ROOT/p/output",
        "STEPS": "1.5",
        "FAST": "false",
    }
    assert secrets == {"HF_TOKEN": "t"}


@pytest.mark.parametrize(
    ("changes", "pointer", "detail"),
    [
        ({"task_template_name": "t"}, "/package", "expected either package or task_template_name"),
        ({"system_values": "env: {STEP: 1}"}, "/system_values", "env.STEP: the package p has no such key in mlops.env"),
        (
            {"system_values": "env: {HF_TOKEN: abc}"},
            "/system_values",
            "env.HF_TOKEN is a secret, and everyone who sees the definition would read it",
        ),
        (
            {"user_values_description": "env: {HF_TOKEN: (Required), STEP: (Optional)}"},
            "/user_values_description",
            "env.STEP: the package p has no such key in mlops.env",
        ),
        (
            {"user_values_example": "taskDef: d\nenv: {HF_TOKEN: abc}"},
            "/user_values_example",
            "env.HF_TOKEN is a secret: expected ***",
        ),
    ],
)
def test_read_reports_faults_of_a_definition(changes: dict[str, Any], pointer: str, detail: str) -> None:
    assert details(**changes) == [(pointer, detail)]


DIGEST = f"sha256:{'0a' * 32}"

HOSTILE = ("", "a b", "$(id)", "../b", "a" * 10_000, "a\nb")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("IMAGE", value) for value in (*HOSTILE, f"a@{DIGEST}@{DIGEST}")),
        *(("REGISTRY", value) for value in HOSTILE),
    ],
)
def test_invalid_part_of_an_image_is_refused_at_its_field(name: str, value: str) -> None:
    ((pointer, detail),) = details(system_values=json.dumps({"env": {name: value}}))
    assert pointer == "/system_values"
    assert detail.startswith(f"env.{name}: expected ")
    assert len(detail) < 300
    assert detail.isprintable()


@pytest.mark.parametrize(
    ("filled", "detail"),
    [
        ({"STEPS": "x"}, "expected a number, found 'x'"),
        ({"IMAGE": "evil:1"}, "only the definition sets it, in system_values"),
        ({"OUTPUT_DIR": "\ud800"}, "expected text, found an unpaired surrogate"),
        ({"OUTPUT_DIR": "/a/../etc"}, "expected an absolute path (or one below ROOT)"),
        ({"HF_TOKEN": 123456}, "expected text"),
    ],
)
def test_value_complaints_report_faulty_values_without_secrets(filled: dict[str, Any], detail: str) -> None:
    ((pointer, text),) = wrong(filled)
    assert pointer == f"/env/{next(iter(filled))}"
    assert text.startswith(detail)
    assert "123456" not in text

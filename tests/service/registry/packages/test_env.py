from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import replace
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


@pytest.mark.parametrize(
    ("default", "kind"),
    [
        *((text, "number") for text in ("1", "-3", "0.1", "2.5e-4")),
        *((text, "string") for text in ("", "007", "1e3", "inf", "NaN", "1_0", "0x1", "1,2", "True", "9" * 40)),
        *((text, "boolean") for text in ("true", "false")),
    ],
)
def test_value_type_follows_from_the_default(default: str, kind: str) -> None:
    assert env.value_type(default) == kind


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
        (
            {"system_values": "image: x"},
            "/system_values",
            "unknown key 'image': a package has env, the keys of mlops.env",
        ),
        ({"system_values": "env: 3"}, "/system_values", "env: expected a mapping, found the number 3"),
        ({"system_values": "env: {STEP: 1}"}, "/system_values", "env.STEP: the package p has no such key in mlops.env"),
        (
            {"system_values": "env: {WORKERS: 8}"},
            "/system_values",
            "env.WORKERS is a number or quantity of the manifests, which only the package sets",
        ),
        ({"system_values": "env: {STEPS: [1]}"}, "/system_values", "env.STEPS: expected a single value, found a list"),
        (
            {"system_values": "env: {HF_TOKEN: abc}"},
            "/system_values",
            "env.HF_TOKEN is a secret, and everyone who sees the definition would read it",
        ),
        (
            {"system_values": 'env: {REGISTRY: "a\\nb"}'},
            "/system_values",
            "env.REGISTRY: expected one line without control characters",
        ),
        (
            {"user_values_description": "env: {HF_TOKEN: (Required), STEP: (Optional)}"},
            "/user_values_description",
            "env.STEP: the package p has no such key in mlops.env",
        ),
        (
            {"user_values_description": "env: {HF_TOKEN: (Required), REGISTRY: (Optional)}"},
            "/user_values_description",
            "env.REGISTRY: only the definition sets it, in system_values, because it decides more than a variable",
        ),
        (
            {"user_values_description": "env: {STEPS: (Optional)}"},
            "/user_values_description",
            "env.HF_TOKEN is missing: the pods cannot start without this secret",
        ),
        (
            {"user_values_description": "x: (Optional)\nenv: {HF_TOKEN: (Required)}"},
            "/user_values_description",
            "users of a package fill in env and endpoints: unknown key 'x'",
        ),
        (
            {"user_values_example": "taskDef: d\nenv: {HF_TOKEN: abc}"},
            "/user_values_example",
            "env.HF_TOKEN is a secret: expected ***",
        ),
        ({"user_values_example": "taskDef: d"}, "/user_values_example", "env.HF_TOKEN: is missing: A secret"),
    ],
)
def test_read_reports_faults_of_a_definition(changes: dict[str, Any], pointer: str, detail: str) -> None:
    assert details(**changes) == [(pointer, detail)]


DIGEST = f"sha256:{'0a' * 32}"

HOSTILE = (
    "",
    " ",
    'a"b',
    "a'b",
    "a b",
    "a#b",
    "$(id)",
    "`id`",
    "$HOME",
    "a;b",
    "../b",
    "a/../b",
    "/a",
    "a/",
    "a//b",
    "A",
    "a\\b",
    "ä",
    "a\u202eb",
    "a" * 10_000,
    "https://a/b",
    "a@sha256:0",
    "{{ .Values.a }}",
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("IMAGE", value) for value in (*HOSTILE, "a:", "a:b:c", f"a@{DIGEST}@{DIGEST}", "a@sha256:" + "G" * 64)),
        *(("REGISTRY", value) for value in HOSTILE if value != "A"),
        *((name, value) for name in ("IMAGE", "REGISTRY") for value in ("a\nb", "a\n", "a\0b", "a\tb", "a\x85b")),
    ],
)
def test_invalid_part_of_an_image_is_refused_at_its_field(name: str, value: str) -> None:
    ((pointer, detail),) = details(system_values=json.dumps({"env": {name: value}}))
    assert pointer == "/system_values"
    assert detail.startswith(f"env.{name}: expected ")
    assert len(detail) < 300
    assert detail.isprintable()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("IMAGE", value) for value in ("p:2", f"team/p@{DIGEST}", f"p:2@{DIGEST}", "p")),
        *(("REGISTRY", value) for value in ("r", "registry.example.com:5000/team", "A", "127.0.0.1:5000")),
    ],
)
def test_valid_part_of_an_image_is_accepted(name: str, value: str) -> None:
    assert details(system_values=json.dumps({"env": {name: value}})) == []


def test_variable_called_image_of_a_package_without_it_takes_any_text() -> None:
    origin = replace(ORIGIN, keys=[*(item for item in KEYS if item.name != "IMAGE"), key("IMAGE", "a picture")])
    definition, complaints = read(body(system_values="env: {IMAGE: another picture}"), origin)
    assert definition is not None
    assert complaints == []


def test_definition_without_template_or_package_is_refused() -> None:
    _, complaints = read(DefinitionBody(name="d"))
    assert [item.pointer for item in complaints] == [
        "/task_template_name",
        "/user_values_description",
        "/user_values_example",
    ]


def test_definition_may_offer_fewer_keys_with_its_own_descriptions() -> None:
    description = "env:\n  STEPS: (Required:integer) Steps\n  HF_TOKEN: (Optional) Token"
    example = "taskDef: d\nenv: {STEPS: 3, HF_TOKEN: '***'}"
    changes = {"user_values_description": description, "user_values_example": example}
    assert wrong({"STEPS": 2}, **changes) == []
    assert wrong({"STEPS": 2.5, "FAST": True}, **changes) == [
        ("/env/STEPS", "expected a whole number, found the number 2.5"),
        ("/env/FAST", "the definition does not let users set it"),
    ]


@pytest.mark.parametrize(
    ("filled", "detail"),
    [
        ({"STEPS": "x"}, "expected a number, found 'x'"),
        ({"IMAGE": "evil:1"}, "only the definition sets it, in system_values"),
        ({"IMAGE": "$(id)\n" * 2_000}, "only the definition sets it, in system_values"),
        ({"WORKERS": 8}, "is a number or quantity of the manifests, which only the package sets"),
        ({"REGISTRY": "evil.example"}, "only the definition sets it, in system_values"),
        ({"OUTPUT_DIR": "a\nb"}, "expected one line without control characters"),
        ({"OUTPUT_DIR": "\ud800"}, "expected text, found an unpaired surrogate"),
        ({"OUTPUT_DIR": "/a/../etc"}, "expected an absolute path (or one below ROOT)"),
        ({"OUTPUT_DIR": "/" + "x" * 40_000}, "expected at most 32 KiB"),
        ({"HF_TOKEN": 123456}, "expected text"),
        ({"STEP": 1}, "unknown key 'STEP'"),
    ],
)
def test_value_complaints_report_faulty_values_without_secrets(filled: dict[str, Any], detail: str) -> None:
    ((pointer, text),) = wrong(filled)
    assert pointer == f"/env/{next(iter(filled))}"
    assert text.startswith(detail)
    assert "123456" not in text


def test_remarks_name_local_registry_and_output_folder() -> None:
    assert [line.partition(":")[0] for line in env.remarks(ORIGIN, {})] == [
        "REGISTRY is localhost",
        "OUTPUT_DIR is ROOT/p/output, a folder in the pod",
    ]
    assert list(env.remarks(ORIGIN, {"env": {"REGISTRY": "r", "OUTPUT_DIR": "/data"}})) == []

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert
from packager.service.page import form
from packager.service.registry import definitions
from packager.service.registry.bodies import DefinitionBody

if TYPE_CHECKING:
    from packager.service.registry.definitions import Definition


def definition(description: str, example: str = "", system: str = "") -> Definition:
    body = {
        "name": "d",
        "task_template_name": "t",
        "user_values_description": description,
        "user_values_example": f"taskDef: d\n{example}",
        "system_values": system,
    }
    made, complaints = definitions.read(convert(body, DefinitionBody))
    assert made, complaints
    return made


@pytest.mark.parametrize(
    ("marker", "example", "text", "value"),
    [
        ("(Optional)", "", "100", 100),
        ("(Optional)", "", "true", True),
        ("(Optional)", "x: '5'", "100", "100"),
        ("(Optional)", "", "{{7*7}}", "{{7*7}}"),
        ("(Optional:string)", "", " 5 ", " 5 "),
        ("(Optional:integer)", "", " -5 ", -5),
        ("(Optional:number)", "", "1e-3", 0.001),
        ("(Optional:number)", "", "nan", "nan"),
        ("(Optional:boolean)", "", "false", False),
    ],
)
def test_input_text_is_converted_by_type_and_example(marker: str, example: str, text: str, value: object) -> None:
    filled = form.read(definition(f"x: {marker} What it is\n", example), {"/x": text})[0]
    assert filled == {"taskDef": "d", "x": value}


def test_free_mappings_and_lists_are_read_as_yaml() -> None:
    made = definition("process:\n  model:\nnames:\n- (Optional:string) A name\n", "names: [a]\n")
    sent = form.read(made, {"/process/model": "a: 1\nb: [x]\n", "/names": "- b\n- c\n"})
    assert sent[0] == {"taskDef": "d", "process": {"model": {"a": 1, "b": ["x"]}}, "names": ["b", "c"]}
    broken = form.read(made, {"/process/model": "a: [", "/names": "- 'x\n"})
    assert [complaint.pointer for complaint in broken[1]] == ["/process/model", "/names"]
    assert form.read(made, {"/process/model": "- 1\n"})[1][0].detail.endswith("expected a mapping, found a list")


def test_all_keys_have_distinct_fields_even_if_they_look_like_paths() -> None:
    made = definition("a/b: (Optional) One\na:\n  b: (Optional) Two\n  c~: (Optional) Three\n")
    names = [field.name for field in form.build(made, {}).optional]
    assert names == ["/a~1b", "/a/b", "/a/c~0", "/name", "/description", "/creator"]
    data = {"/a~1b": "1", "/a/b": "2", "/a/c~0": "3"}
    assert form.read(made, data)[0] == {"taskDef": "d", "a/b": 1, "a": {"b": 2, "c~": 3}}


def test_form_of_filled_values_reads_the_same_values() -> None:
    made = definition(
        "endpoints:\n- endpoint: (Required) Data\n  type: (Required) dataset\n"
        "- endpoint: (Optional) Hook\n  type: (Optional) event\n"
        "process:\n  train:\n    n: (Required:integer) Steps\n    flag: (Optional:boolean) Flag\n  model:\n",
        "endpoints: [{endpoint: 's3://b', type: dataset}]\nprocess: {train: {n: 5}}\n",
    )
    filled: dict[str, Any] = {
        "taskDef": "d",
        "endpoints": [
            {"endpoint": "s3://one", "type": "dataset"},
            {"endpoint": "s3://two", "type": "dataset"},
            {"endpoint": "https://h.example", "type": "event", "headers": {"x": "***"}},
        ],
        "process": {"train": {"n": 7, "flag": True}, "model": {"a": {"b": [1]}}},
    }
    data = form.data_of(made, filled)
    assert "***" not in str(data)
    del filled["endpoints"][2]["headers"]
    assert form.read(made, data)[0] == filled

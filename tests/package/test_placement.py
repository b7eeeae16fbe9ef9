"""Tests of `packager.package.placement`: it changes values of placement/placement.yaml, and nothing else."""

from __future__ import annotations

import pytest

from packager.base.errors import UsageError
from packager.package.placement import assign, built, parse, values


def test_assign_keeps_the_other_field_and_quotes_ambiguous_values() -> None:
    fields = {"nodeSelector": {"pool": "on", "b": "1"}}
    text = assign(built("p"), "p", fields, "f")
    assert b'    nodeSelector:\n      pool: "on"\n      b: "1"\n    # Taints' in text
    assert values(text, "f") == {**values(built("p"), "f"), **fields}


def test_assign_refuses_file_with_other_edits() -> None:
    for text in (b"", b"template: 1\n", b"a: [", built("p") + b"# mine\n", built("q")):
        with pytest.raises(UsageError, match="f cannot be edited automatically") as refused:
            assign(text, "p", {"nodeSelector": {"a": "b"}}, "f")
        assert refused.value.hint == "set nodeSelector there"


def test_parse_reads_labels_and_taints_as_kubectl_writes_them() -> None:
    assert parse("", "NODE_SELECTOR", "pool=train,example.com/disk=ssd,empty=") == {
        "nodeSelector": {"pool": "train", "example.com/disk": "ssd", "empty": ""}
    }
    assert parse("", "TOLERATIONS", "dedicated=train:NoSchedule,nvidia.com/gpu,a:NoExecute,b=") == {
        "tolerations": [
            {"key": "dedicated", "operator": "Equal", "value": "train", "effect": "NoSchedule"},
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "a", "operator": "Exists", "effect": "NoExecute"},
            {"key": "b", "operator": "Equal", "value": ""},
        ]
    }


def test_parse_refuses_value_of_another_form() -> None:
    for key, value in (
        ("NODE_SELECTOR", ""),
        ("NODE_SELECTOR", "pool"),
        ("NODE_SELECTOR", "pool=a b"),
        ("NODE_SELECTOR", "a=b,"),
        ("NODE_SELECTOR", "/a=b"),
        ("NODE_SELECTOR", "a=b," * 101 + "a=b"),
        ("TOLERATIONS", "a:noschedule"),
        ("TOLERATIONS", "a:"),
        ("TOLERATIONS", "=a:NoSchedule"),
        ("TOLERATIONS", "a,{}"),
    ):
        with pytest.raises(UsageError, match=rf"^--set {key}: expected (labels|taints) such as .*, found "):
            parse(f"--set {key}", key, value)


def test_values_reads_fields_that_a_build_writes() -> None:
    fields = parse("", "NODE_SELECTOR", "pool=on") | parse("", "TOLERATIONS", "a=1:NoSchedule")
    assert values(built("p", fields), "f") == fields
    assert values(b"template: 1", "p") == {}
    assert values(b"a: [", "p") == {}

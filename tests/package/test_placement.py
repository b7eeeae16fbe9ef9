"""Tests of `packager.package.placement`: it changes values of placement/placement.yaml, and nothing else."""

from __future__ import annotations

import pytest

from packager.base.errors import UsageError
from packager.package.placement import assign, parse, values

FILE = """\
# Values.
template:
  spec:
    # Labels.
    nodeSelector:
      kubernetes.io/os: linux
    # Taints.
    tolerations:
      - key: a
        tolerationSeconds: 300
"""


def test_assign_keeps_comments_and_quotes_ambiguous_values() -> None:
    fields = {"nodeSelector": {"pool": "on", "b": "1"}, "tolerations": [{"key": "x", "operator": "Exists"}]}
    assert assign(FILE.encode(), fields, "p").decode() == (
        "# Values.\n"
        "template:\n"
        "  spec:\n"
        "    # Labels.\n"
        "    nodeSelector:\n"
        '      pool: "on"\n'
        '      b: "1"\n'
        "    # Taints.\n"
        "    tolerations:\n"
        "      - key: x\n"
        "        operator: Exists\n"
    )


def test_assign_refuses_file_without_the_field() -> None:
    for text in ("", "template: 1\n", "template: {spec: {}}\n", "- a\n"):
        with pytest.raises(UsageError, match="p cannot be edited automatically") as refused:
            assign(text.encode(), {"nodeSelector": {"a": "b"}}, "p")
        assert refused.value.hint == "set nodeSelector there"
    with pytest.raises(UsageError, match="p cannot be edited"):
        assign(b"a: [", {"nodeSelector": {"a": "b"}}, "p")


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


def test_values_reads_fields_that_assign_writes() -> None:
    fields = parse("", "NODE_SELECTOR", "pool=on") | parse("", "TOLERATIONS", "a=1:NoSchedule")
    text = assign(FILE.encode(), fields, "p")
    assert values(text, "p") == fields
    assert assign(text, values(text, "p"), "p") == text
    assert values(b"template: 1", "p") == {}
    assert values(b"a: [", "p") == {}

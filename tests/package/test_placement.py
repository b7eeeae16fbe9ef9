"""Tests of `packager.package.placement`: it changes values of site/placement.yaml, and nothing else."""

from __future__ import annotations

import pytest

from packager.base.errors import UsageError
from packager.package.placement import assign

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


@pytest.mark.parametrize("text", ["", "template: 1\n", "template: {spec: {}}\n", "- a\n"])
def test_assign_refuses_file_without_the_field(text: str) -> None:
    with pytest.raises(UsageError, match="p cannot be edited automatically") as refused:
        assign(text.encode(), {"nodeSelector": {"a": "b"}}, "p")
    assert refused.value.hint == "set nodeSelector there"


def test_assign_refuses_invalid_yaml() -> None:
    with pytest.raises(UsageError, match="p cannot be edited"):
        assign(b"a: [", {"nodeSelector": {"a": "b"}}, "p")

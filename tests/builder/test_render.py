"""Filling the templates: whatever a value holds, a file keeps its structure."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest
import ruamel.yaml
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from packager.base import envfile
from packager.builder.plan import Options, plan
from packager.builder.render import cell, code_span, render, scalar
from packager.modelspec.load import load
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

    from packager.builder.plan import Plan


@pytest.fixture
def planned(tmp_path: Path) -> Plan:
    loaded = load(demo.write(tmp_path))
    return plan(loaded, loaded.spec.variants[0], Options())


# YAML has no way to write half of a surrogate pair, and no spec holds one.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def yaml_1_1(text: str) -> Any:
    return yaml.load(text, Loader=yaml.SafeLoader)


def yaml_1_2(text: str) -> Any:
    return ruamel.yaml.YAML(typ="safe", pure=True).load(io.StringIO(text))


@given(TEXTS)
@example("yes")
@example("Off")
@example("y")
@example("~")
@example("0x10")
@example("1e3")
@example("12:30")
@example("a: b")
@example("a #b")
@example("- a")
@example("a:")
@example("\x85\u2028\ufeff")
@example("\ufffe\uffff")
@example("'\"\\")
@example(".inf")
@example("=")
@example("<<")
def test_scalar_is_read_as_the_same_text_by_yaml_1_1_and_1_2(value: str) -> None:
    written = scalar(value)
    assert "\n" not in written
    for document in (f"key: {written}\nnext: 1\n", f"- {written}\n- 1\n", f"{{key: {written}, next: 1}}"):
        for read in (yaml_1_1, yaml_1_2):
            values = read(document)
            assert (values[0] if isinstance(values, list) else values["key"]) == value
            assert len(values) == 2


@given(st.integers() | st.booleans())
def test_scalar_keeps_numbers_and_booleans(value: int) -> None:
    assert yaml_1_1(scalar(value)) == value
    assert type(yaml_1_2(scalar(value))) is type(value)


@given(TEXTS.filter(lambda text: not set(text) & set("\n\r")))
def test_code_span_stays_within_its_table_cell(value: str) -> None:
    written = code_span(value)
    fence = len(written) - len(written.lstrip("`"))
    inner = written[fence : len(written) - fence]
    assert fence not in [len(run) for run in re.findall("`+", inner)]
    assert "|" not in inner.replace(r"\|", "")
    assert cell(value).replace(r"\|", "|") == value


def test_rendered_files_contain_no_template_syntax(planned: Plan) -> None:
    tree = render(planned)
    paths = [entry.path for entry in tree.entries]
    assert paths == sorted(paths)
    for entry in tree.entries:
        if isinstance(entry.content, bytes):
            text = entry.content.decode()
            assert "{{" not in text
            assert "{%" not in text
            assert entry.size == len(entry.content)


def test_description_like_an_assignment_is_not_a_variable_that_is_commented_out(tmp_path: Path) -> None:
    spec = demo.changed(
        "environment: {LR: {value: 0.1, description: DEBUG=1 prints more}, B: {value: 1, description: x y=2}}"
    )
    loaded = load(demo.write(tmp_path, spec))
    tree = render(plan(loaded, loaded.spec.variants[0], Options()))
    (env,) = (entry.content for entry in tree.entries if entry.path == "quickstart/k8s/mlops/single-node/mlops.env")
    assert isinstance(env, bytes)
    assert b"\n# LR: DEBUG=1 prints more\nLR=0.1\n" in env
    assert b"\n# x y=2\nB=1\n" in env
    assert "DEBUG" not in envfile.keys(env)

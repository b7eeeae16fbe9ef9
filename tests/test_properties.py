"""Tests that no valid value changes the structure of a written file.

A package is built with hostile values for every field of the spec and of the command line, and compared with a package
of plain values: it must have the same files and the same YAML structure, with the values in the same places.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import ruamel.yaml
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packager.base.errors import UsageError
from packager.base.fields import EnvironmentText, OneLine, QuantityText, Registry, Text
from packager.builder.plan import Options, check_options, plan
from packager.builder.render import render
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.load import load
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

    from packager.package.tree import Tree

# Values that templates, shells or YAML interpret.
NASTY = [
    *("yes", "no", "~", "null", "1.10", "010", "0x1f", "1e3", "12:30", "2020-01-01", ".inf", "=", "<<", "true"),
    *("", " ", "  x", "x  ", "# x", "x # y", "x: y", "x:", "- x", "? x", "| x", "> x"),
    *("@x", "`x`", "%x", "!x", "&x"),
    *("'", '"', "''", '"x"', "\\", "\\n", "{{ x }}", "{% x %}", "{x}", "[x]", "$(MODEL_DIR)", "$MODEL_DIR", "${X:-y}"),
    *("a=b", "$$x", "`id`", "$(id)", "; id", "x | y", "|", "<b>&amp;", "\u00a0", "\ufeff", "é", "漢字", "\U0001f600"),
    *("...", "---", "\t", "x\ty", "#", "export X=1", "REGISTRY", "ROOT", "ROOT/x", "/quickstart", "/demo", "x" * 300),
]


def valid(kind: Any, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return a strategy for the `values` that are valid for the type."""

    def accepts(value: str) -> bool:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return False
        return True

    return values.filter(accepts)


TEXTS = st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PATHS = st.builds(lambda text: f"/{text}", TEXTS)

SPECS = st.fixed_dictionaries(
    {
        "title": valid(OneLine, TEXTS),
        "description": valid(Text, TEXTS),
        "value": valid(EnvironmentText, TEXTS),
        "about": valid(OneLine, TEXTS),
        "registry": valid(Registry, st.from_regex(r"[a-z0-9.:/_-]{1,20}", fullmatch=True)),
        "quantity": valid(QuantityText, st.sampled_from(["1e3", "1E3", ".5", "5.", "0", "010", "1_0", "2Gi", "100m"])),
        "root": PATHS,
    }
)
PLAIN = {
    "title": "title",
    "description": "description",
    "value": "value",
    "about": "about",
    "registry": "registry",
    "quantity": "1",
    "root": "/root",
}


def built(folder: Path, values: dict[str, str]) -> Tree | None:
    """Return the package with these values; None if the root is invalid."""
    spec: dict[str, Any] = yaml.safe_load(demo.SPEC)
    spec |= {"title": values["title"], "description": values["description"]}
    spec["environment"] = {"KEY": {"value": values["value"], "description": values["about"]}, "OTHER": values["value"]}
    spec["overlays"]["single-node"]["resources"] = {"limits": {"memory": values["quantity"]}}
    options = Options(root=values["root"], registry=values["registry"])
    try:
        check_options(options)
    except UsageError:
        return None
    loaded = load(demo.write(folder, yaml.safe_dump(spec)))
    return render(plan(loaded, loaded.spec.variants[0], options))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    package = built(tmp_path_factory.mktemp("plain"), PLAIN)
    assert package is not None
    return package


def texts(package: Tree) -> dict[str, str]:
    """Return the YAML files that are rendered from templates, by path."""
    return {
        entry.path: entry.content.decode()
        for entry in package.entries
        if entry.path.endswith(".yaml") and entry.path != "spec.yaml" and isinstance(entry.content, bytes)
    }


@cache
def documents(text: str) -> list[Any]:
    """Return the documents of a YAML file, which must be equal in YAML 1.1 and 1.2."""
    old = list(yaml.load_all(text, Loader=yaml.SafeLoader))
    assert old == list(ruamel.yaml.YAML(typ="safe", pure=True).load_all(io.StringIO(text)))
    return old


@pytest.mark.thorough
@settings(max_examples=20, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(values=SPECS)
def test_hostile_values_change_no_structure(
    tmp_path_factory: pytest.TempPathFactory, plain: Tree, values: dict[str, str]
) -> None:
    package = built(tmp_path_factory.getbasetemp() / "hostile", values)
    if package is None:
        return
    assert [entry.path for entry in package.entries] == [entry.path for entry in plain.entries]
    expected = texts(plain)
    for path, text in texts(package).items():
        if text != expected[path]:
            hostile, same = documents(text), documents(expected[path])
            assert _without(hostile, values["quantity"]) == _without(same, PLAIN["quantity"]), path


def _without(node: Any, quantity: str) -> Any:
    """Return `node` with a mark in the place of `quantity`, which every YAML must read as this text."""
    if isinstance(node, list):
        return [_without(item, quantity) for item in node]
    if not isinstance(node, dict):
        return node
    marked = {**node, "memory": "MARK"} if node.get("memory") == quantity else node
    return {key: _without(value, quantity) for key, value in marked.items()}


def test_hostile_values_reach_the_cluster_as_they_are(tmp_path: Path, kubectl: Path) -> None:
    environment = dict(
        zip("ABCDEFGH", ["yes", "#x", "  'x' ", "$(MODEL_DIR)", "a=b: {c}", '\\n"', "{{ é }}", ""], strict=True)
    )
    spec = yaml.safe_load(demo.SPEC) | {"title": "x: #y", "environment": environment | {"ROOTED": "ROOT/x"}}
    loaded = load(demo.write(tmp_path / "model", yaml.safe_dump(spec)))
    manifests = _rendered(render(plan(loaded, loaded.spec.variants[0], Options(root="/root"))), tmp_path, kubectl)
    [data] = [item["data"] for item in manifests if item["metadata"]["name"] == "demo-fp32-training-env-single-node"]
    assert {key: data[key] for key in environment} == environment
    assert data["ROOTED"] == "/root/x"
    assert data["MODEL_DIR"] == "/root/demo-fp32-training"


def _rendered(package: Tree, folder: Path, kubectl: Path, overlay: str = "single-node") -> list[Any]:
    (folder / "package").mkdir()
    tree.write(package, folder / "package")
    rendering = kustomize(folder / "package/quickstart/k8s/mlops" / overlay, program=str(kubectl))
    return list(yaml.safe_load_all(rendering.manifests))


@pytest.mark.parametrize("word", ["on", "null"])
def test_names_that_are_yaml_keywords_stay_strings(tmp_path: Path, kubectl: Path, word: str) -> None:
    spec = demo.changed(
        f"name: demo => name: '{word}'",
        f"framework: mpi => framework: '{word}'",
        f"single-node: => '{word}':",
        f'name: demo, tag: "1.0" => name: "{word}", tag: "{word}"',
        f"use_case: '{word}'",
    )
    loaded = load(demo.write(tmp_path / "model", spec))
    manifests = _rendered(render(plan(loaded, loaded.spec.variants[0], Options())), tmp_path, kubectl, word)
    (pod,) = [item for item in manifests if item["kind"] == "Pod"]
    assert pod["metadata"]["name"] == f"{word}-fp32-training-{word}"
    assert pod["metadata"]["labels"]["app.kubernetes.io/part-of"] == word
    assert pod["spec"]["containers"][0]["image"] == f"docker.io/{word}:{word}"

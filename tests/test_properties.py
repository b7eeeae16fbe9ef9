"""Tests that values which YAML or templates interpret arrive as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.load import load
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

    from packager.package.tree import Tree


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

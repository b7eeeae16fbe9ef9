"""The overlay `workspace`, which creates the claim that the package was sealed with, and nothing else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.kubernetes.kubectl.kustomize import kustomize
from tests import demo
from tests.files import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

OVERLAY = "quickstart/k8s/mlops/workspace"
SPEC = demo.changed(
    "  single-node: {kind: Pod} =>   single-node: {kind: Job, claims: [{claim: data, path: /data}]}", "workspace: data"
)
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: miner}\nspec: {containers: [{name: main, image: localhost/a:1}]}\n"


@pytest.fixture
def shared(mlpack: Mlpack, tmp_path: Path) -> Path:
    """A package with the overlay `workspace`."""
    demo.write(tmp_path / "demo", SPEC)
    done = mlpack("build", "./demo", "--format", "dir")
    assert done.code == 0, done.stderr
    return tmp_path / "demo-fp32-training"


def rendered(package: Path, kubectl: Path) -> dict[str, Any]:
    done = kustomize(package / OVERLAY, program=str(kubectl))
    assert done.warnings == ()
    claim: dict[str, Any] = yaml.safe_load(done.manifests)
    return claim


def problems(mlpack: Mlpack, package: Path, kubectl: Path) -> list[str]:
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code == 5) is bool(done.stdout), done.stderr
    return [line.removeprefix(f"{package}/{OVERLAY}/") for line in done.stdout.splitlines()]


def test_workspace_is_verified_and_cannot_be_deployed(mlpack: Mlpack, shared: Path, kubectl: Path) -> None:
    done = mlpack("verify", "-v", shared, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    assert "workspace creates 1 PersistentVolumeClaim\n" in done.stderr
    assert "workspace: Pod Security restricted\n" in done.stderr
    refused = mlpack("deploy", shared, "--overlay", "workspace", "--kubectl", kubectl)
    assert (refused.code, "has no overlay 'workspace'; it has: multi-node, single-node" in refused.stderr) == (2, True)


def test_workload_added_to_the_workspace_is_found(mlpack: Mlpack, shared: Path, kubectl: Path) -> None:
    replace(shared / OVERLAY / "kustomization.yaml", "resources:\n", "resources:\n  - pod.yaml\n")
    (shared / OVERLAY / "pod.yaml").write_text(POD)
    listed = problems(mlpack, shared, kubectl)
    assert "pod.yaml:2:1: Pod miner: kind: this overlay creates claims, and nothing else" in listed
    assert any(line.startswith("pod.yaml: the package was not sealed with this file (own manifests") for line in listed)


def test_workspace_without_the_claim_of_the_inventory_is_found(mlpack: Mlpack, shared: Path, kubectl: Path) -> None:
    """A sender may write any inventory, so the rendered objects are checked."""
    inventory = shared / "manifest.json"
    sealed = json.loads(inventory.read_text())
    inventory.write_text(json.dumps({**sealed, "workspace": "other"}))
    (line,) = problems(mlpack, shared, kubectl)
    assert line.startswith("kustomization.yaml:1:1: this overlay does not create the claim 'other'")


def test_inventory_with_invalid_claim_name_is_refused(mlpack: Mlpack, shared: Path) -> None:
    for claim in ["", "../x", "A", 1, ["data"], "x" * 64]:
        inventory = shared / "manifest.json"
        inventory.write_text(json.dumps({**json.loads(inventory.read_text()), "workspace": claim}))
        done = mlpack("verify", shared)
        assert (done.code, "workspace" in done.stderr) == (5, True)

"""Options do not change the claims of a Job, whatever their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.builder.selection import select
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.load import load
from packager.package import tree
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("my-output", "dataset-2", "shm-x", "a-model", "checkpoint-1", "my-scripts", "output", "model", "claim-1")
CLAIMS = "\n".join(f"      - {{claim: {name}, path: /mnt/{name}}}" for name in NAMES)
SPEC = demo.changed(
    "single-node: {kind: Pod}\n => single-node:\n    kind: Job\n    claims:\n" + CLAIMS + "\n",
    "  multi-node: {kind: MPIJob}\n => ",
    "script: train.sh => script: train.sh, init: {command: [ls]}",
    "environment: {CHECKPOINT_DIR: /checkpoints}",
    "assets: [train.sh]",
)
SITE = ("NFS_SERVER=nfs.example", "OUTPUT_CLAIM=results", "DATASET_CLAIM=data", "CHECKPOINT_CLAIM=saves")


@pytest.mark.thorough
@pytest.mark.parametrize("options", [("nfs", "shared-memory"), ("pvc", "shared-memory")])
def test_options_keep_claims_of_a_job(tmp_path: Path, kubectl: Path, options: tuple[str, ...]) -> None:
    loaded = load(demo.write(tmp_path / "model", SPEC))
    package = render(plan(loaded, loaded.spec.variants[0], Options(site=select(options, SITE))))
    folder = tmp_path / "package"
    folder.mkdir()
    tree.write(package, folder)
    rendered = kustomize(folder / "quickstart/k8s/mlops/single-node", program=str(kubectl))
    (job,) = (item for item in yaml.safe_load_all(rendered.manifests) if item["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    claims = {
        volume["persistentVolumeClaim"]["claimName"]: volume["name"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    for container in (pod["containers"][0], pod["initContainers"][-1]):
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert {name: mounts.get(f"/mnt/{name}") for name in NAMES} == {name: claims.get(name) for name in NAMES}
    assert len(set(claims.values())) == len(claims)

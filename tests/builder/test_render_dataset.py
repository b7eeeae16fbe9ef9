"""DATASET_DIR as a volume that pods fill with the sources of a spec: in each kind, and with each option of storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.package.options import BY_NAME
from packager.workloads import structures
from tests import demo, kinds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

SOURCES = f"""sources:
  - {{from: "hf://datasets/owner/name@{"0" * 40}", to: DATASET_DIR, size: 3}}
"""
OPTIONS = {
    "dataset-pvc": ("persistentVolumeClaim", {"claimName": "dataset"}),
    "nfs": ("nfs", {"server": "nfs.example.com", "path": "/dataset"}),
    "": ("emptyDir", {}),
}


@pytest.mark.parametrize(
    ("option", "checkpoints"),
    [
        ("dataset-pvc", ""),
        pytest.param("", "", marks=pytest.mark.thorough),
        pytest.param("nfs", "environment: {CHECKPOINT_DIR: /checkpoints}\n", marks=pytest.mark.thorough),
    ],
)
def test_init_container_may_write_to_the_dataset_and_the_program_may_not(
    mlpack: Callable[..., Outcome], tmp_path: Path, kubectl: Path, option: str, checkpoints: str
) -> None:
    model = demo.write(tmp_path / "model", demo.SPEC + SOURCES + checkpoints)
    keys = BY_NAME[option].keys if option else ()
    argv = [f"--with={option}"] if option else []
    argv += [argument for key in keys for argument in ("--site", f"{key.name}={key.example}")]
    argv += [f"--set={argument}" for argument in (*kinds.SET, "assets.0=train.sh")]
    done = mlpack("build", model, "--format", "dir", "--root", "/srv", *argv)
    assert done.code == 0, done.stderr
    for overlay in (tmp_path / "demo-fp32-training/quickstart/k8s/mlops").iterdir():
        for data in yaml.safe_load_all(kustomize(overlay, program=str(kubectl)).manifests):
            for pods in structures.pods(Manifest(data)):
                if pods.computes:
                    _check(pods.spec, option if pods.stores else "")


def _check(spec: dict[str, Any], option: str) -> None:
    kind, source = OPTIONS[option]
    part = {"subPath": "."} if option == "dataset-pvc" else {}
    assert [volume for volume in spec["volumes"] if volume["name"] == "dataset"] == [{"name": "dataset", kind: source}]
    init, main = spec["initContainers"][1], spec["containers"][0]
    mounts = [[mount for mount in one["volumeMounts"] if mount["name"] == "dataset"] for one in (init, main)]
    assert mounts == [
        [{"name": "dataset", "mountPath": "/dataset", **part}],
        [{"name": "dataset", "mountPath": "/dataset", "readOnly": True, **part}],
    ]


@pytest.mark.thorough
def test_verify_refuses_a_bucket_at_the_same_folder(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    model = demo.write(tmp_path / "model", demo.SPEC + SOURCES)
    bucket = ("--with=object-storage", "--site=BUCKET_DRIVER=s3", "--site=BUCKET_DIR=/dataset")
    assert mlpack("build", model, "--format", "dir", *bucket).code == 0
    done = mlpack("verify", "demo-fp32-training")
    assert done.code == 5
    assert "two volumes are mounted at /dataset" in done.stdout

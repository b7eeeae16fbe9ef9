"""Tests that quickstart/ equals the built package of resnet50 fp32 training, and renders from a clone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from tests import kubectls

CHECKOUT = Path(__file__).resolve().parents[1]
QUICKSTART = CHECKOUT / "quickstart"
PACKAGE = "resnet50v1-5-fp32-training"


def files(folder: Path) -> dict[str, tuple[bytes, bool]]:
    """Return the content of every file below `folder`, and whether it is executable, which git stores."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_quickstart_matches_templates(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "packager", "build", "resnet50", "--precision", "fp32", "--mode", "training"]
    subprocess.run([*build, "--format", "dir", "-d", str(tmp_path)], check=True, stdout=subprocess.DEVNULL)
    built, committed = files(tmp_path / PACKAGE / "quickstart"), files(QUICKSTART)
    drifted = sorted(path for path in {*built, *committed} if built.get(path) != committed.get(path))
    assert not drifted, f"run `make quickstart` and commit what it changes: {', '.join(drifted)}"


def test_quickstart_renders_from_clone() -> None:
    kustomize = [str(kubectls.kubectl()), "kustomize", str(QUICKSTART / "k8s/mlops/multi-node")]
    done = subprocess.run(kustomize, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    manifests = {manifest["kind"]: manifest for manifest in yaml.safe_load_all(done.stdout)}
    job = manifests["MPIJob"]
    assert job["metadata"]["name"] == f"{PACKAGE}-multi-node"
    assert job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] == 2

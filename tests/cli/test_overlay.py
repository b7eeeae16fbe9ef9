"""Tests of overlays outside of their packages: the package's folder is replaced, and never edited."""

import json
import re
import shutil
from pathlib import Path

import pytest

from packager.kubernetes.kubectl.kustomize import kustomize
from packager.package.archive import extract
from tests import kubectls
from tests.configure.test_upgrade import edit, files, newer
from tests.conftest import Mlpack
from tests.life import JOB, Life
from tests.local_pod import write
from tests.released import RELEASES

OVERLAY = "quickstart/k8s/mlops/single-node"
ENV = f"{OVERLAY}/mlops.env"
SITE = "quickstart/common/mpi/k8s/mlops/site/site.env"
OURS = """\
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
patches:
  - target: {kind: Pod}
    patch: |-
      - {op: add, path: /spec/nodeSelector/pool, value: train}
"""
SETTINGS = ("--registry", "example.com/team", "--uid", "2000", "--with", "output-pvc", "--set", "OUTPUT_CLAIM=mine")


ADDED = (
    *("--with", "gpu", "--set", "GPU_COUNT=4", "--with", "placement"),
    *("--set", "NODE_SELECTOR=disk=ssd", "--set", "TOLERATIONS=train:NoSchedule"),
)


@pytest.fixture
def mine(mlpack: Mlpack, package: Path) -> Path:
    """The overlay single-node outside of its package."""
    done = mlpack("overlay", package, "--to", "mine", "--overlay", "single-node")
    assert (done.code, done.stdout) == (0, "mine/single-node\n"), done.stderr
    return Path("mine/single-node")


def test_overlay_inside_of_its_package_is_refused(mlpack: Mlpack, package: Path) -> None:
    done = mlpack("overlay", package, "--to", package / "mine")
    assert (done.code, f"error: {package}/mine is in the package\n" in done.stderr) == (2, True), done.stderr
    assert not (package / "mine").exists()


def rendered(folder: Path, kubectl: Path) -> str:
    return str(kustomize(folder, program=str(kubectl)).manifests)


def test_configured_overlay_renders_as_the_one_in_the_package(
    mlpack: Mlpack, package: Path, mine: Path, kubectl: Path, tmp_path: Path
) -> None:
    before = files(package)
    assert rendered(mine, kubectl) == rendered(package / OVERLAY, kubectl)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/kustomization.yaml").write_text(OURS)
    settings = (*SETTINGS, *ADDED, "--with", str(tmp_path / "ours"))
    done = mlpack("configure", mine, *settings)
    assert done.code == 0, done.stderr
    assert f"{mine}/site/ours/kustomization.yaml\n" in done.stdout
    assert f"{mine}/options/placement/placement.yaml\n" in done.stdout
    assert files(package) == before
    verified = mlpack("verify", "-v", mine, "--kubectl", kubectl)
    assert verified.code == 0, verified.stdout
    for name in ("gpu", "placement"):
        assert f"note: {mine}/options/{name}/kustomization.yaml: option {name} added\n" in verified.stderr
    assert f"{mine}/mlops.env:5: 'REGISTRY=example.com/team' was 'REGISTRY=docker.io'\n" in verified.stderr
    number = (mine / "kustomization.yaml").read_text().splitlines().index("  - ./site/ours") + 1
    assert f"{mine}/kustomization.yaml:{number}: '- ../../../site/ours' is new\n" in verified.stderr
    oldest = kubectls.kubectl(kubectls.VERSIONS[0])  # it applies components before generators
    configured = rendered(mine, kubectl)
    assert rendered(mine, oldest) == configured
    assert mlpack("configure", package, "--overlay", "single-node", *settings).code == 0
    assert rendered(package / OVERLAY, kubectl) == configured


def test_overlay_of_another_place_and_without_its_values_is_refused(mlpack: Mlpack, mine: Path, kubectl: Path) -> None:
    (mine / "values/kustomization.yaml").unlink()
    done = mlpack("verify", mine, "--kubectl", kubectl)
    hint = "mlpack overlay hello-mpi --to mine carries it over"
    message = f"{mine}/values/kustomization.yaml: it is not as `mlpack overlay` writes it ({hint})\n"
    assert (done.code, done.stdout) == (5, message)
    edit(mine / "kustomization.yaml", "  - pod.yaml", "  - pod.yaml\n  - ../../else")
    done = mlpack("verify", mine, "--kubectl", kubectl)
    assert done.code == 5
    assert f"{mine}/kustomization.yaml:8:5: " in done.stdout


def replaced(package: Path, new: Path) -> None:
    """Put a newer build in the place of the package's folder."""
    shutil.rmtree(package)
    shutil.move(new, package)


def test_newer_package_renews_an_added_option(
    mlpack: Mlpack, package: Path, mine: Path, tmp_path: Path, kubectl: Path
) -> None:
    assert mlpack("configure", mine, *ADDED, "--with", "output-pvc", "--set", "OUTPUT_CLAIM=mine").code == 0
    placed = mine / "options/placement/placement.yaml"
    edit(placed, "# Labels that a node must have.", "# Our nodes.")
    expected = placed.read_bytes()
    (mine / "options/placement/kustomization.yaml").write_text("of an older version of mlpack")
    values = (mine / "values/site.env").read_text()
    (mine / "values/site.env").write_text(re.sub(r"#.*\nSPREAD_ELSE=.*\n", "", values))
    replaced(package, newer(package, tmp_path / "new", {"README.md": b"new"}))
    done = mlpack("overlay", package, "--to", "mine", "--overlay", "single-node")
    assert (done.code, done.stderr) == (0, "new value: mine/single-node/values/site.env: SPREAD_ELSE\n")
    assert placed.read_bytes() == expected
    assert (mine / "values/site.env").read_text() == values
    before = files(mine)
    done = mlpack("verify", "-v", mine, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    assert f"note: {mine}/options/placement/kustomization.yaml: option placement added\n" in done.stderr
    assert "claimName: mine\n" in rendered(mine, kubectl)
    assert mlpack("overlay", package, "--to", "mine", "--overlay", "single-node").stderr == ""
    assert files(mine) == before


@pytest.mark.thorough
def test_two_newer_packages_are_taken_with_the_edits(
    mlpack: Mlpack, package: Path, mine: Path, kubectl: Path, tmp_path: Path
) -> None:
    assert mlpack("configure", mine, *SETTINGS).code == 0
    (mine / "notes.md").write_text("mine")
    env, site = (package / ENV).read_bytes(), (package / SITE).read_bytes()
    first = newer(package, tmp_path / "first", {ENV: b"BATCH=8\n" + env, SITE: b"# reworded\n" + site})
    replaced(package, first)
    refused = mlpack("verify", mine, "--kubectl", kubectl)
    assert refused.code == 5
    assert "was written for" in refused.stderr
    assert "hint: mlpack overlay hello-mpi --to mine carries it over\n" in refused.stderr
    done = mlpack("overlay", package, "--to", "mine", "--overlay", "single-node")
    assert (done.code, done.stdout) == (0, "mine/single-node\n")
    assert done.stderr == "new value: mine/single-node/mlops.env: BATCH\n"
    second = newer(package, tmp_path / "second", {ENV: b"STEPS=9\n" + (package / ENV).read_bytes()})
    replaced(package, second)
    arguments = ("overlay", package, "--to", "mine", "--overlay", "single-node", "-o", "json")
    assert mlpack(*arguments, "--dry-run").json == mlpack(*arguments, "--dry-run").json
    done = mlpack(*arguments)
    assert done.json == [
        {"folder": "mine/single-node", "new": False, "new_keys": ["mine/single-node/mlops.env: STEPS"]}
    ]
    text = (mine / "mlops.env").read_text()
    assert text.startswith("STEPS=9\nBATCH=8\n")
    assert "REGISTRY=example.com/team\n" in text
    assert (mine / "values/site.env").read_text().startswith("# reworded\n")
    assert "OUTPUT_CLAIM=mine\n" in (mine / "values/site.env").read_text()
    assert (mine / "notes.md").read_text() == "mine"
    assert mlpack("verify", mine, "--kubectl", kubectl).code == 0
    assert "claimName: mine\n" in rendered(mine, kubectl)


def test_package_of_0_2_0_has_no_overlay_outside(mlpack: Mlpack, tmp_path: Path) -> None:
    extract(RELEASES / "0.2.0/hello-mpi.tar.gz", tmp_path)
    done = mlpack("overlay", tmp_path / "hello-mpi", "--to", "mine")
    assert (done.code, "was built by mlpack 0.2.0 or before" in done.stderr) == (2, True)


def test_conflict_with_a_newer_package_leaves_the_overlay(
    mlpack: Mlpack, package: Path, mine: Path, tmp_path: Path
) -> None:
    assert mlpack("configure", mine, "--registry", "example.com/team").code == 0
    before = files(mine)
    env = (package / ENV).read_bytes().replace(b"=docker.io", b"=quay.io")
    replaced(package, newer(package, tmp_path / "new", {ENV: env}))
    done = mlpack("overlay", package, "--to", "mine", "--overlay", "single-node")
    assert done.code == 9
    assert "mine/single-node/mlops.env:5:1: the package had REGISTRY=docker.io, you have " in done.stderr
    assert files(mine) == before
    assert (
        mlpack("overlay", package, "--to", "mine", "--overlay", "single-node", "--yours", mine / "mlops.env").code == 0
    )
    assert "REGISTRY=example.com/team\n" in (mine / "mlops.env").read_text()
    assert "=quay.io" in (mine / "mlpack-overlay.json").read_text()


def test_folder_with_something_else_and_archive_are_refused(mlpack: Mlpack, package: Path, mine: Path) -> None:
    (mine.parent / "multi-node").mkdir()
    (mine.parent / "multi-node/thesis.tex").write_text("")
    assert mlpack("overlay", package, "--to", "mine").code == 2
    assert mlpack("overlay", mine, "--to", "other").code == 2
    (package / "README.md").write_text("changed")
    assert mlpack("overlay", package, "--to", "other").code == 5
    (mine / "mlpack-overlay.json").write_text("{}")
    assert mlpack("verify", mine).code == 5


def test_cluster_commands_take_an_overlay_with_an_added_option(mlpack: Mlpack, life: Life, tmp_path: Path) -> None:
    assert mlpack("overlay", "hello-mpi", "--to", "mine").code == 0
    mine = "mine/multi-node"
    assert mlpack("configure", mine, "--registry", "r.example", "--with", "placement").code == 0
    life.output = write(tmp_path / "pod", {"a.txt": b"hello"})
    life.logs = {f"{JOB}-launcher-0": "epoch 1\n"}
    done = mlpack("deploy", mine, "-n", "team", "--no-wait")
    assert done.code == 0, done.stderr
    assert f"show its state: mlpack status {mine} -n team\n" in done.stderr
    life.start()
    done = mlpack("status", mine, "-n", "team", "-o", "json")
    assert (done.code, done.json["summary"]) == (0, "pods: 3 running"), done.stderr
    assert done.json["digest"] == json.loads(Path(f"{mine}/mlpack-overlay.json").read_text())["digest"]
    done = mlpack("logs", mine, "-n", "team")
    assert (done.code, done.stdout) == (0, "epoch 1\n"), done.stderr
    assert mlpack("results", mine, "here", "-n", "team").code == 0
    assert (tmp_path / "here/a.txt").read_bytes() == b"hello"
    done = mlpack("delete", mine, "-n", "team", "--yes")
    assert done.code == 0, done.stderr
    assert not any(obj["kind"] == "MPIJob" for obj in life.objects)

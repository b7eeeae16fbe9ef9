from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.kubernetes.kubectl.kustomize import kustomize

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]

OVERLAYS = "quickstart/k8s/mlops"


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes()) for path in files}


def changed(before: dict[str, tuple[int, bytes]], folder: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the lines that differ, by file; modes must not differ at all, nor the number of lines."""
    after = contents(folder)
    assert before.keys() == after.keys()
    differing = {}
    for path in before:
        assert before[path][0] == after[path][0], f"{path} has another mode"
        old, new = (version[path][1].decode().split("\n") for version in (before, after))
        if old != new:
            differing[path] = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]]
    return differing


def env(folder: Path, overlay: str = "multi-node") -> dict[str, str]:
    text = (folder / OVERLAYS / overlay / "mlops.env").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def rendered(kubectl: Path, folder: Path, overlay: str) -> list[Any]:
    result = kustomize(folder / OVERLAYS / overlay, program=str(kubectl))
    assert result.warnings == ()
    return list(yaml.safe_load_all(result.manifests))


def test_root_and_ids_change_only_their_lines_in_every_overlay(mlpack: Mlpack, package: Path) -> None:
    before = contents(package)
    done = mlpack("configure", package, "--root", "/data/me", "--uid", "12345", "--gid", "12346", "--fs-group", "12347")
    assert done.code == 0
    roots = [
        ("MODEL_DIR=ROOT/hello-mpi", "MODEL_DIR=/data/me/hello-mpi"),
        ("OUTPUT_DIR=ROOT/hello-mpi/output", "OUTPUT_DIR=/data/me/hello-mpi/output"),
    ]

    def ids(indent: int) -> list[tuple[str, str]]:
        new = {"runAsUser": 12345, "runAsGroup": 12346, "fsGroup": 12347}
        return [(f"{' ' * indent}{key}: 1000", f"{' ' * indent}{key}: {number}") for key, number in new.items()]

    expected = {
        f"{OVERLAYS}/multi-node/mlops-job-patch.yaml": [*ids(12), *ids(12)],
        f"{OVERLAYS}/multi-node/mlops.env": roots,
        f"{OVERLAYS}/single-node/mlops.env": roots,
        f"{OVERLAYS}/single-node/pod-patch.yaml": ids(4),
    }
    assert changed(before, package) == expected
    assert sorted(done.stdout.splitlines()) == [str(package / path) for path in sorted(expected)]


def test_configure_changes_nothing_the_second_time(mlpack: Mlpack, package: Path) -> None:
    answers = ("--root", "/data/me", "--uid", "12345", "--registry", "r.example", "--add", "NEW=1", "--with", "gpu")
    assert mlpack("configure", package, *answers).code == 0
    before = contents(package)
    again = mlpack("configure", package, *answers)
    assert (again.code, again.stdout) == (0, "")
    assert "nothing to change" in again.stderr
    assert contents(package) == before


def test_another_root_moves_folders_of_the_package(mlpack: Mlpack, package: Path) -> None:
    mlpack("configure", package, "--root", "/one", "--set", "DATASET_DIR=/one/data")
    mlpack("configure", package, "--root", "/two/")
    assert env(package)["MODEL_DIR"] == "/two/hello-mpi"
    assert env(package)["OUTPUT_DIR"] == "/two/hello-mpi/output"
    assert env(package)["DATASET_DIR"] == "/one/data", "it is below the root, and not below the package"


def test_root_is_refused_with_an_edited_model_dir(mlpack: Mlpack, package: Path) -> None:
    mlpack("configure", package, "--set", "MODEL_DIR=/elsewhere")
    done = mlpack("configure", package, "--root", "/one")
    assert done.code == 2
    assert "MODEL_DIR does not end with /hello-mpi: '/elsewhere'" in done.stderr


@pytest.mark.thorough
def test_values_are_written_unchanged(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    for number, value in enumerate(["two words ", "'quoted' \"twice\"", "a=b # no comment", "$HOME ☂", ""]):
        assert mlpack("configure", package, "--add", f"MESSAGE_{number}={value}").code == 0
        config = next(
            item for item in rendered(kubectl, package, "single-node") if f"MESSAGE_{number}" in item.get("data", {})
        )
        assert config["data"][f"MESSAGE_{number}"] == value


def test_invalid_answer_changes_nothing(mlpack: Mlpack, package: Path) -> None:
    for arguments, message in (
        (("--set", "A B=1"), "expected KEY=VALUE, with a key of letters, digits and '_'"),
        (("--set", "A=1\nB=2"), "expected a value of one line"),
        (("--set", f"A={'x' * 40000}"), "of at most 32 KiB"),
        (("--set", "NFS_SERVR=x"), "--set NFS_SERVR: the package has no such value hint: did you mean 'NFS_SERVER'?"),
        (("--set", "output_dir=/x"), "the package has no such value hint: did you mean 'OUTPUT_DIR'?"),
        (
            ("--set", "GPU_COUT=4", "--set", "debug=8"),
            "no such value hint: did you mean 'GPU_COUNT'?; --add debug=VALUE adds a variable",
        ),
        (("--add", "OUTPUT_FOLDER=4"), "site.env has it already hint: --set OUTPUT_FOLDER=VALUE changes it"),
        (("--set", "GPU_COUNT=4"), "--set GPU_COUNT: the package has no such value hint: --with gpu adds it"),
        (("--add", "OUTPUT_DIR=/x"), "mlops.env has it already hint: --set OUTPUT_DIR=VALUE changes it"),
        (("--add", "LD_PRELOAD=x"), "--add LD_PRELOAD: it cannot be set in a package"),
        (("--site", "GPU_COUT=4"), "--site GPU_COUT: the package has no such value hint: did you mean 'GPU_COUNT'?"),
        (("--site", "GPU_COUNT=many"), "--site GPU_COUNT: expected a whole number from 1, found 'many'"),
        (("--root", "relative"), "expected an absolute path"),
        (("--registry", "http://x"), "expected a host"),
        (("--uid", "0"), "would run as root, which the package does not allow"),
        (("--with", "gpus"), "did you mean 'gpu'?"),
        (("--storage", "gpu"), "expected one of scratch, host-path, nfs, pvc"),
        (("--storage", "nfs", "--with", "scratch"), "scratch and nfs cannot be combined"),
        (("--with", "pvc-create"), "pvc-create needs pvc or output-pvc, which is off"),
        (
            ("--storage", "nfs", "--root", "/x"),
            "nfs needs NFS_SERVER, such as nfs.example.com (--set NFS_SERVER=VALUE)",
        ),
        (("--storage", "host-path"), "host-path needs MODEL_DIR as an absolute path"),
    ):
        before = contents(package)
        done = mlpack("configure", package, *arguments)
        assert done.code == 2
        assert message in " ".join(done.stderr.split())
        assert contents(package) == before


def test_site_sets_value_of_option_and_set_value_of_one_overlay(mlpack: Mlpack, package: Path) -> None:
    assert (
        mlpack("configure", package, "--overlay", "single-node", "--add", "ONE=1", "--site", "OUTPUT_CLAIM=4").code == 0
    )
    site = (package / "quickstart/common/mpi/k8s/mlops/site/site.env").read_text()
    assert "\nOUTPUT_CLAIM=4\n" in site
    before = contents(package)
    assert mlpack("configure", package, "--set", "ONE=2").code == 0
    assert list(changed(before, package)) == [f"{OVERLAYS}/single-node/mlops.env"]


@pytest.mark.thorough
def test_placement_is_set_without_an_editor(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    option = "--set"
    values = (option, "NODE_SELECTOR=pool=train", option, "TOLERATIONS=dedicated=train:NoSchedule,nvidia.com/gpu")
    done = mlpack("configure", package, "--with", "placement", *values)
    assert done.code == 0, done.stderr
    assert mlpack("build", "hello-mpi", "--format", "dir", "-d", "again", "--with", "placement", *values).code == 0
    for folder in (package, Path("again/hello-mpi")):
        job = rendered(kubectl, folder, "multi-node")[-1]
        for role in job["spec"]["mpiReplicaSpecs"].values():
            assert role["template"]["spec"]["nodeSelector"] == {"pool": "train"}
            assert role["template"]["spec"]["tolerations"] == [
                {"key": "dedicated", "operator": "Equal", "value": "train", "effect": "NoSchedule"},
                {"key": "nvidia.com/gpu", "operator": "Exists"},
            ]
        assert mlpack("verify", folder, "--kubectl", kubectl).code == 0
    refused = mlpack("configure", package, option, "TOLERATIONS=dedicated=train:Never")
    assert refused.code == 2
    assert f"{option} TOLERATIONS: expected taints such as dedicated=train:NoSchedule,nvidia.com/gpu" in refused.stderr


def test_storage_option_replaces_the_other_storage(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    claims = ("--set", "OUTPUT_CLAIM=results", "--set", "DATASET_CLAIM=data")
    assert mlpack("configure", package, "--storage", "nfs", "--set", "NFS_SERVER=nfs.example", "--root", "/x").code == 0
    assert mlpack("configure", package, "--storage", "pvc", *claims).code == 0
    listed = yaml.safe_load((package / OVERLAYS / "multi-node/kustomization.yaml").read_text())["components"]
    assert [path.rpartition("/")[2] for path in listed] == ["pvc"]
    pod = next(item for item in rendered(kubectl, package, "single-node") if item["kind"] == "Pod")
    claimed = [
        item["persistentVolumeClaim"]["claimName"] for item in pod["spec"]["volumes"] if "persistentVolumeClaim" in item
    ]
    assert sorted(claimed) == ["data", "results"]


def on(package: Path) -> list[str]:
    """Return the options that are on in multi-node."""
    listed = yaml.safe_load((package / OVERLAYS / "multi-node/kustomization.yaml").read_text())["components"] or []
    return [path.rpartition("/")[2] for path in listed]


@pytest.mark.thorough
def test_storage_can_be_chosen_for_each_folder(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    results = ("--storage", "output-nfs", "--set", "OUTPUT_NFS_SERVER=nfs.example", "--set", "OUTPUT_NFS_PATH=/export")
    dataset = ("--storage", "dataset-host-path", "--set", "DATASET_HOST_PATH=/disk")
    assert mlpack("configure", package, *results, *dataset).code == 0
    assert on(package) == ["output-nfs", "dataset-host-path"]
    claim = ("--storage", "output-pvc", "--with", "pvc-create", "--set", "CLAIM_CLASS=fast")
    assert mlpack("configure", package, *claim, "--set", "OUTPUT_CLAIM=results").code == 0
    assert on(package) == ["output-pvc", "dataset-host-path", "pvc-create"]
    assert mlpack("verify", package, "--kubectl", kubectl, "--pod-security", "privileged").code == 0
    pod = next(item for item in rendered(kubectl, package, "single-node") if item["kind"] == "Pod")
    volumes = {item["name"]: item for item in pod["spec"]["volumes"]}
    assert volumes["output"]["persistentVolumeClaim"] == {"claimName": "results-single-node"}
    assert volumes["dataset"]["hostPath"] == {"path": "/disk", "type": "Directory"}
    assert mlpack("configure", package, "--storage", "scratch").code == 0
    assert on(package) == ["scratch"]


def test_storage_of_one_folder_is_refused_beside_storage_of_all(mlpack: Mlpack, package: Path) -> None:
    nfs = ("--storage", "nfs", "--set", "NFS_SERVER=nfs.example", "--root", "/x")
    assert mlpack("configure", package, *nfs).code == 0
    done = mlpack("configure", package, "--storage", "dataset-pvc", "--set", "DATASET_CLAIM=d")
    assert (done.code, on(package)) == (2, ["nfs"])
    assert "nfs and dataset-pvc cannot be combined: each sets where the dataset is" in done.stderr


def test_option_switched_on_and_off_restores_every_byte(mlpack: Mlpack, full_package: Path) -> None:
    package = full_package
    before = contents(package)
    assert mlpack("configure", package, "--with", "gpu", "--with", "root").code == 0
    assert contents(package) != before
    assert mlpack("configure", package, "--without", "gpu", "--without", "root").code == 0
    assert contents(package) == before


def test_uid_0_requires_the_root_option(mlpack: Mlpack, package: Path) -> None:
    assert mlpack("configure", package, "--with", "root", "--uid", "0").code == 0
    done = mlpack("configure", package, "--without", "root")
    assert done.code == 2
    assert "hint: --with root allows it" in done.stderr


def test_dry_run_shows_changes_and_writes_nothing(mlpack: Mlpack, package: Path) -> None:
    before = contents(package)
    done = mlpack("configure", package, "--registry", "r.example", "--dry-run")
    assert (done.code, done.stdout) == (0, "")
    assert "REGISTRY=docker.io  ->  REGISTRY=r.example" in done.stderr
    assert contents(package) == before


def test_configure_writes_a_second_archive(mlpack: Mlpack, tmp_path: Path) -> None:
    assert mlpack("build", "hello-mpi").code == 0
    archive = tmp_path / "hello-mpi.tar.gz"
    before = archive.read_bytes()
    done = mlpack("configure", archive, "--root", "/x")
    assert (done.code, done.stdout.strip()) == (0, str(tmp_path / "hello-mpi.configured.tar.gz"))
    assert archive.read_bytes() == before
    verified = mlpack("verify", tmp_path / "hello-mpi.configured.tar.gz", "-o", "json")
    assert verified.code == 0
    assert [path.rpartition("/")[2] for path in json.loads(verified.stdout)["edits"]] == ["mlops.env", "mlops.env"]


def test_value_that_is_not_utf8_is_refused(mlpack: Mlpack, package: Path) -> None:
    before = contents(package)
    outcome = mlpack("configure", package, "--set", "GREETING=/\udcff")
    assert (outcome.code, outcome.stderr) == (2, "error: --set GREETING: expected UTF-8 text\n")
    option = mlpack("build", "hello-mpi", "--with", "output-host-path", "--site", "OUTPUT_HOST_PATH=/\udcff")
    assert (option.code, "an absolute path without ':'" in option.stderr) == (2, True), option.stderr
    assert contents(package) == before

"""Tests of packages that write to the same volume: each has a folder there, and an upgrade keeps the place of files."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.render import TEMPLATES
from packager.kubernetes.kubectl.kustomize import kustomize

if TYPE_CHECKING:
    from tests.conftest import Mlpack

OVERLAY = "quickstart/k8s/mlops/single-node"
SITE = "quickstart/common/mpi/k8s/mlops/site/site.env"
EARLIER = Path(__file__).parent / "releases/0.2.0/hello-mpi.tar.gz"


def pod(package: Path, kubectl: Path) -> Any:
    manifests = kustomize(package / OVERLAY, program=str(kubectl)).manifests
    return next(data for data in yaml.safe_load_all(manifests) if data["kind"] == "Pod")["spec"]


def output_folder(spec: Any) -> str | None:
    (mount,) = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "output"]
    folder: str | None = mount.get("subPath")
    return folder


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("output-pvc", ["OUTPUT_CLAIM=all"]),
        ("output-nfs", ["OUTPUT_NFS_SERVER=nas", "OUTPUT_NFS_PATH=/srv"]),
    ],
)
def test_packages_of_one_volume_write_to_folders_of_their_names(
    mlpack: Mlpack, tmp_path: Path, kubectl: Path, option: str, values: list[str]
) -> None:
    for name in ("wave", "ripple"):
        sets = [word for value in (f"name={name}",) for word in ("--set", value)]
        site = [word for value in values for word in ("--site", value)]
        done = mlpack("build", "hello-mpi", *sets, "--with", option, *site, "--format", "dir")
        assert done.code == 0, done.stderr
        spec = pod(tmp_path / name, kubectl)
        assert output_folder(spec) == name
        (identity,) = [container for container in spec["initContainers"] if container["name"] == "identity"]
        assert identity["env"] == [{"name": "OUTPUT_FOLDER", "value": name}]
        assert {"name": "output", "mountPath": "/mnt/output"} in identity["volumeMounts"]


def test_identity_makes_the_folders_that_main_containers_mount(tmp_path: Path) -> None:
    script = TEMPLATES[""] / "package/quickstart/common/FRAMEWORK/k8s/mlops/base/identity.sh"
    text = script.read_text(encoding="utf-8").replace("/mnt/", f"{tmp_path}/mnt/")
    (tmp_path / "mnt/output").mkdir(parents=True)
    environment = {"OUTPUT_FOLDER": "team/wave", "PATH": "/usr/bin:/bin"}
    subprocess.run(["sh", "-c", text, "identity.sh", tmp_path, "/home"], env=environment, check=True)
    assert (tmp_path / "mnt/output/team/wave").is_dir()
    assert not (tmp_path / "mnt/checkpoint").exists()


def test_site_chooses_the_folder_or_the_root_of_a_volume(mlpack: Mlpack, package: Path, kubectl: Path) -> None:
    mlpack(
        "configure", package, "--with", "output-pvc", *("--set", "OUTPUT_CLAIM=all", "--set", "OUTPUT_FOLDER=team/wave")
    )
    assert output_folder(pod(package, kubectl)) == "team/wave"
    mlpack("configure", package, "--set", "OUTPUT_FOLDER=.")
    assert output_folder(pod(package, kubectl)) == "."
    mlpack("configure", package, "--set", "OUTPUT_FOLDER=../other")
    refused = mlpack("verify", package)
    assert refused.code == 5
    assert "OUTPUT_FOLDER: expected a path below a folder, without ':' and '..', found '../other'" in refused.stdout


def test_upgrade_of_an_earlier_package_keeps_the_place_of_its_results(
    mlpack: Mlpack, tmp_path: Path, kubectl: Path
) -> None:
    subprocess.run(["tar", "xzf", EARLIER, "-C", tmp_path], check=True)
    mlpack("build", "hello-mpi", "--format", "dir", "-d", tmp_path / "new")
    earlier = tmp_path / "hello-mpi"
    mlpack("configure", earlier, "--with", "output-pvc", "--set", "OUTPUT_CLAIM=all")
    assert mlpack("verify", earlier).code == 0
    done = mlpack("upgrade", earlier, tmp_path / "new/hello-mpi")
    assert done.code == 0, done.stderr
    assert "\nOUTPUT_FOLDER=.\n" in (earlier / SITE).read_text(encoding="utf-8")
    assert output_folder(pod(earlier, kubectl)) == "."

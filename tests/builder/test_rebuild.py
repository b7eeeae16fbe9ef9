"""Tests of `mlpack verify --rebuild`: packages that are built again from their specs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Mlpack

INVENTORY = Path("hello-mpi/manifest.json")


@pytest.fixture(autouse=True)
def _kubectl(kubectl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECTL", str(kubectl))


@pytest.fixture
def model(mlpack: Mlpack) -> str:
    """The path of the spec of a model."""
    assert mlpack("init", "ours").code == 0
    return "ours/spec.yaml"


@pytest.mark.parametrize(
    "options",
    [
        "--set title=Ours --registry registry.example.com/team --root /m --with nfs --site NFS_SERVER=nfs.example.com",
        "--with placement --set NODE_SELECTOR=pool=on --site TOLERATIONS=a:NoSchedule",
    ],
)
def test_package_is_the_same_when_it_is_built_again(mlpack: Mlpack, options: str) -> None:
    built = mlpack("build", "hello-mpi", *options.split(), "-o", "json")
    assert built.code == 0, built.stderr
    done = mlpack("verify", "hello-mpi.tar.gz", "--rebuild", "hello-mpi")
    assert (done.code, done.stdout) == (0, "")
    assert f": the same digest {built.json['packages'][0]['digest']}\n" in done.stderr


def test_edited_package_is_compared_as_it_was_delivered(mlpack: Mlpack) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    env = Path("hello-mpi/quickstart/k8s/mlops/single-node/mlops.env")
    env.write_text(env.read_text().replace("REGISTRY=docker.io", "REGISTRY=example.com"))
    assert mlpack("verify", "hello-mpi", "--rebuild", "hello-mpi").code == 0


@pytest.mark.thorough
def test_other_spec_makes_another_package(mlpack: Mlpack, model: str) -> None:
    built = mlpack("build", model)
    assert built.code == 0, built.stderr
    package = built.stdout.strip()
    assert mlpack("verify", package, "--rebuild", model).code == 0
    spec = Path(model)
    spec.write_text(spec.read_text() + "# changed\n")
    done = mlpack("verify", package, "--rebuild", model)
    assert done.code == 5
    assert f"built again from {model}, it has another digest: expected sha256:" in done.stdout
    assert f"spec.yaml: {model} makes another file\n" in done.stdout
    assert mlpack("verify", package, "--rebuild", "no-such-model").code == 2


@pytest.mark.thorough
def test_files_that_only_one_of_them_has_are_named(mlpack: Mlpack) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    value = json.loads(INVENTORY.read_text())
    value["files"]["mine.txt"] = value["files"].pop("Dockerfile")
    value["tool"]["version"] = "0.0.1"
    INVENTORY.write_text(json.dumps(value))
    done = mlpack("verify", "hello-mpi", "--rebuild", "hello-mpi")
    assert done.code == 5
    assert "Dockerfile: " in done.stdout
    assert "makes this file\n" in done.stdout
    assert "makes no such file\n" in done.stdout
    assert "the package was built by mlpack 0.0.1, and this is " in done.stdout


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("with", ["our-component"], "the site's own component our-component is not in the spec"),
        ("set", ["environment.NO_SUCH=1"], "cannot be built again from"),
        ("root", "relative", "--root relative: expected an absolute path"),
    ],
)
def test_options_that_the_spec_does_not_take_are_problems(
    mlpack: Mlpack, key: str, value: object, message: str
) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    content = json.loads(INVENTORY.read_text())
    content["spec"][key] = value
    INVENTORY.write_text(json.dumps(content))
    done = mlpack("verify", "hello-mpi", "--rebuild", "hello-mpi")
    assert (done.code, message in done.stdout) == (5, True)

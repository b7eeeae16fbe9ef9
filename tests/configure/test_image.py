"""The image of a package has one place: its registry in mlops.env, and the rest in kustomization.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.kubectl.kustomize import kustomize

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

OVERLAYS = "quickstart/k8s/mlops"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@pytest.fixture
def package(mlpack: Run, tmp_path: Path) -> Path:
    done = mlpack("build", "hello-mpi", "--format", "dir", "--registry", "r.example:5000/team")
    assert done.code == 0, done.stderr
    return tmp_path / "hello-mpi"


def images(package: Path, overlay: str, kubectl: Path) -> set[str]:
    """Return the images of all containers of an overlay as kubectl renders it."""
    text = kustomize(package / OVERLAYS / overlay, program=str(kubectl)).manifests
    return set(re.findall(r"^ *-? *image: (.*)$", text, re.MULTILINE))


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("mpioperator/mpi-pi:2", "mpioperator/mpi-pi:2"),
        ("new", "new:openmpi"),
        ("a/b/c:1.0", "a/b/c:1.0"),
        (f"new@{DIGEST}", f"new@{DIGEST}"),
        (f"new:1.0@{DIGEST}", f"new:1.0@{DIGEST}"),
    ],
)
def test_image_is_changed_in_all_containers_of_all_overlays(
    image: str, expected: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    done = mlpack("configure", package, "--image", image)
    assert done.code == 0
    assert sorted(done.stdout.splitlines()) == [
        f"{package}/{OVERLAYS}/{overlay}/kustomization.yaml" for overlay in ("multi-node", "single-node")
    ]
    for overlay in ("multi-node", "single-node"):
        assert images(package, overlay, kubectl) == {f"r.example:5000/team/{expected}"}


def test_verify_reports_every_change_of_the_image(mlpack: Run, package: Path, kubectl: Path) -> None:
    assert mlpack("configure", package, "--image", f"new:1.0@{DIGEST}", "--registry", "other.example").code == 0
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    image = f"other.example/new:1.0@{DIGEST}"
    assert f"an edit changes the image of single-node: '{image}'; it was sealed with" in done.stderr


def test_entry_as_kustomize_writes_it_is_kept(mlpack: Run, package: Path, kubectl: Path) -> None:
    path = package / OVERLAYS / "single-node/kustomization.yaml"
    by_kustomize = "images:\n- name: REGISTRY/mpioperator/mpi-pi\n  newName: REGISTRY/new\n  newTag: v2\n"
    path.write_text(path.read_text(encoding="utf-8") + by_kustomize, encoding="utf-8")
    assert images(package, "single-node", kubectl) == {"r.example:5000/team/new:v2"}
    assert mlpack("configure", package, "--overlay", "single-node", "--image", "new:v3").code == 0
    assert images(package, "single-node", kubectl) == {"r.example:5000/team/new:v3"}


def test_overlay_with_an_image_built_elsewhere_keeps_it(mlpack: Run, tmp_path: Path, kubectl: Path) -> None:
    sets = ("--set", "overlays.single-node.image.name=jobs", "--set", "overlays.single-node.image.tag=1")
    assert mlpack("build", "hello-mpi", "--format", "dir", *sets).code == 0
    package = tmp_path / "hello-mpi"
    assert mlpack("configure", package, "--image", "new:2").code == 0
    assert images(package, "single-node", kubectl) == {"docker.io/jobs:1"}
    assert images(package, "multi-node", kubectl) == {"docker.io/new:2"}
    assert mlpack("configure", package, "--overlay", "single-node", "--image", "jobs:2").code == 0
    assert images(package, "single-node", kubectl) == {"docker.io/jobs:2"}


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (
            "r.example/t/new:1",
            "hint: the registry is REGISTRY in mlops.env: --registry r.example --image t/new:1",
        ),
        ("localhost:5000/new", "hint: the registry is REGISTRY in mlops.env: --registry localhost:5000 --image new"),
        ("New:1", "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"),
        ("new@sha256:12", "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"),
        ("new\n", "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"),
        ("a/" * 400 + "b", "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"),
        ("", "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"),
    ],
)
def test_text_other_than_an_image_without_a_registry_is_refused(
    image: str, message: str, mlpack: Run, package: Path
) -> None:
    done = mlpack("configure", package, "--image", image)
    assert done.code == 2
    assert message in done.stderr

"""The image of a package has one place: REGISTRY and IMAGE in mlops.env."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from packager.kubernetes.kubectl.kustomize import kustomize

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

OVERLAYS = "quickstart/k8s/mlops"
DOCS = Path(__file__).parent.parent.parent / "docs"
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
    [("new", "new:openmpi"), (f"new:1.0@{DIGEST}", f"new:1.0@{DIGEST}")],
)
def test_image_is_changed_in_all_containers_of_all_overlays(
    image: str, expected: str, mlpack: Run, package: Path, kubectl: Path
) -> None:
    done = mlpack("configure", package, "--image", image)
    assert done.code == 0
    assert sorted(done.stdout.splitlines()) == [
        f"{package}/{OVERLAYS}/{overlay}/mlops.env" for overlay in ("multi-node", "single-node")
    ]
    for overlay in ("multi-node", "single-node"):
        assert images(package, overlay, kubectl) == {f"r.example:5000/team/{expected}"}


@pytest.mark.thorough
def test_verify_reports_every_change_of_the_image(mlpack: Run, package: Path, kubectl: Path) -> None:
    assert mlpack("configure", package, "--image", f"new:1.0@{DIGEST}", "--registry", "other.example").code == 0
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    image = f"other.example/new:1.0@{DIGEST}"
    assert f"an edit changes the image of single-node: '{image}'; it was sealed with" in done.stderr


@pytest.mark.parametrize("name", ["REGISTRY/IMAGE", "r.example:5000/team/mpioperator/mpi-pi"])
def test_verify_reports_an_entry_of_images_without_effect(mlpack: Run, package: Path, kubectl: Path, name: str) -> None:
    path = package / OVERLAYS / "single-node/kustomization.yaml"
    text = path.read_text()
    line = text.count("\n") + 2
    path.write_text(f"{text}images:\n  - name: {name}\n    newTag: v2\n")
    assert images(package, "single-node", kubectl) == {"r.example:5000/team/mpioperator/mpi-pi:openmpi"}
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    message = "this entry has no effect: the image is REGISTRY/IMAGE of mlops.env"
    hint = "(mlpack configure --image NAME:TAG, or edit IMAGE in mlops.env)"
    assert done.stdout == f"{path}:{line}:5: {message} {hint}\n"


@pytest.mark.thorough
def test_patch_of_flux_and_argo_sets_the_image(package: Path, kubectl: Path) -> None:
    """Flux and Argo CD put the patches of their objects at the end of `patches` in the kustomization."""
    lines = (DOCS / "airgap.md").read_text().split("  patches:\n", 1)[1].split("```")[0]
    patch = textwrap.dedent(lines).replace("REGISTRY", "IMAGE").replace("registry.lab.example.com", f"a/b:1@{DIGEST}")
    for entry in (textwrap.dedent(lines), patch):
        path = package / OVERLAYS / "multi-node/kustomization.yaml"
        content = yaml.safe_load(path.read_text())
        content["patches"] += yaml.safe_load(entry)
        path.write_text(yaml.safe_dump(content))
    assert images(package, "multi-node", kubectl) == {f"registry.lab.example.com/a/b:1@{DIGEST}"}


def test_image_in_a_manifest_is_refused_at_its_line(mlpack: Run, package: Path, kubectl: Path) -> None:
    pod = package / OVERLAYS / "single-node/pod.yaml"
    text = pod.read_text()
    line = text[: text.index("image: REGISTRY/IMAGE # both")].count("\n") + 1
    pod.write_text(text.replace("image: REGISTRY/IMAGE # both in mlops.env", "image: docker.io/a/b:1"))
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    message = "expected REGISTRY/IMAGE, which mlops.env fills in, found 'docker.io/a/b:1'"
    assert f"{pod}:{line}:14: {message}" in done.stdout


@pytest.mark.thorough
def test_overlay_with_an_image_built_elsewhere_keeps_it(mlpack: Run, tmp_path: Path, kubectl: Path) -> None:
    sets = ("--set", "overlays.single-node.image.name=jobs", "--set", "overlays.single-node.image.tag=1")
    assert mlpack("build", "hello-mpi", "--format", "dir", *sets).code == 0
    package = tmp_path / "hello-mpi"
    assert mlpack("configure", package, "--image", "new:2").code == 0
    assert images(package, "single-node", kubectl) == {"docker.io/jobs:1"}
    assert images(package, "multi-node", kubectl) == {"docker.io/new:2"}
    assert mlpack("configure", package, "--overlay", "single-node", "--image", "jobs:2").code == 0
    assert images(package, "single-node", kubectl) == {"docker.io/jobs:2"}


HOSTILE = {
    "A:1": 7,
    "": 7,
    "x:$(HOME)": 9,
    "x:1\\n": 10,
    "a" * 30_000: 7,
}
"""Texts that are no image without a registry, and the column in which verify refuses each."""


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:20])
def test_value_other_than_an_image_is_refused_at_its_character(
    mlpack: Run, package: Path, kubectl: Path, value: str
) -> None:
    path = package / OVERLAYS / "single-node/mlops.env"
    text = path.read_text().replace("IMAGE=mpioperator/mpi-pi:openmpi\n", f"IMAGE={value}\n")
    path.write_text(text)
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 5
    expected = "IMAGE: expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag, found"
    assert f"{path}:8:{HOSTILE[value]}: {expected}" in done.stdout
    assert len(done.stdout) < 1_000
    if value:
        done = mlpack("configure", package, "--overlay", "multi-node", "--set", f"IMAGE={value}")
        assert done.code == 2
        assert "IMAGE" in done.stderr


def test_edited_image_is_an_edit(mlpack: Run, package: Path, kubectl: Path) -> None:
    value = f"a/b_c/d__e-f.g:{'t' * 128}@{DIGEST}"
    path = package / OVERLAYS / "single-node/mlops.env"
    path.write_text(path.read_text().replace("IMAGE=mpioperator/mpi-pi:openmpi\n", f"IMAGE={value}\n"))
    assert images(package, "single-node", kubectl) == {f"r.example:5000/team/{value}"}
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, "")
    assert f"{path}:8: 'IMAGE={value}' was 'IMAGE=mpioperator/mpi-pi:openmpi'" in done.stderr


def test_registry_in_the_image_is_noted(mlpack: Run, package: Path, kubectl: Path) -> None:
    path = package / OVERLAYS / "single-node/mlops.env"
    path.write_text(path.read_text().replace("IMAGE=mpioperator/mpi-pi:openmpi\n", "IMAGE=docker.io/a/b:1\n"))
    done = mlpack("verify", package, "--kubectl", kubectl)
    assert done.code == 0
    message = "IMAGE is below REGISTRY: 'docker.io' is not the registry, but a part of the name"
    assert f"{path}:8:7: {message}" in done.stderr
    done = mlpack("configure", package, "--set", "IMAGE=docker.io/a/b:1")
    assert done.code == 2
    assert "the registry is REGISTRY in mlops.env: --registry docker.io --image a/b:1" in done.stderr


def test_image_of_an_overlay_with_a_registry_of_its_own_is_below_it(mlpack: Run, tmp_path: Path) -> None:
    sets = {"name": "pytorch/pytorch", "tag": "2.9", "registry": "ghcr.io", "digest": DIGEST}
    options = [part for key, value in sets.items() for part in ("--set", f"overlays.single-node.image.{key}={value}")]
    assert mlpack("build", "hello-mpi", "--format", "dir", *options).code == 0
    env = (tmp_path / "hello-mpi" / OVERLAYS / "single-node/mlops.env").read_text()
    assert "REGISTRY=ghcr.io\n" in env
    assert f"IMAGE=pytorch/pytorch:2.9@{DIGEST}\n" in env


def test_spec_cannot_set_the_image_as_a_variable(mlpack: Run) -> None:
    done = mlpack("build", "hello-mpi", "--add", "environment.IMAGE=x:1")
    assert done.code == 3
    assert "set it with `image`" in done.stderr


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (
            "r.example/t/new:1",
            "hint: the registry is REGISTRY in mlops.env: --registry r.example --image t/new:1",
        ),
        ("", "expected NAME[:TAG][@sha256:DIGEST], in lower case before the tag"),
    ],
)
def test_text_other_than_an_image_without_a_registry_is_refused(
    image: str, message: str, mlpack: Run, package: Path
) -> None:
    done = mlpack("configure", package, "--image", image)
    assert done.code == 2
    assert message in done.stderr

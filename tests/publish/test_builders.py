"""Tests of the use case `packager.publish.builders`."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.cli.console import printable
from tests import demo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome
    from tests.life import Life

    Mlpack = Callable[..., Outcome]
    Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """A function that installs a builder, which logs its arguments; other builders of this machine are hidden."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    installed: set[str] = set()
    monkeypatch.setattr("packager.base.process.find", lambda name: name if name in installed else None)

    def make(name: str, work: str = "exit 0") -> None:
        log = shlex.quote(str(tmp_path / f"{name}.log"))
        installed.add(name)
        _script(folder / name, f'echo "$@" >> {log}\necho progress\n{work}')

    return make


IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"


def test_image_is_built_and_pushed_for_deployment(
    mlpack: Mlpack, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker")
    assert mlpack("init", "trial", "--kind", "Deployment").code == 0
    assert mlpack("build", "./trial", "--format", "dir").code == 0
    image = "registry.example.com/team/trial:1.0"
    assert mlpack("configure", "trial-serving", "--registry", "registry.example.com/team").code == 0
    for verb, command in (("build", f"build --tag={image} -- trial-serving"), ("push", f"push -- {image}")):
        done = mlpack("image", verb, "trial-serving", "--kubectl", kubectl)
        assert (done.code, done.stdout) == (0, f"{image}\n"), done.stderr
        assert (tmp_path / "docker.log").read_text().splitlines()[-1] == command


def test_image_build_uses_package_folder_and_image_name_of_pods(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker")
    install("buildah")
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, f"{IMAGE}\n")
    assert (tmp_path / "docker.log").read_text() == f"build --tag={IMAGE} -- {package}\n"
    assert not (tmp_path / "buildah.log").exists()
    assert f"+ docker build --tag={IMAGE} -- {package}" in done.stderr


def test_image_push_replaces_registry(mlpack: Mlpack, package: Path, kubectl: Path, install: Install) -> None:
    install("podman")
    done = mlpack("image", "push", package, "--kubectl", kubectl, "--registry", "r.example:5000/a/b", "--dry-run")
    assert done.stdout == "podman push -- r.example:5000/a/b/mpioperator/mpi-pi:openmpi\n"


@pytest.mark.thorough
def test_image_build_tags_image_for_each_overlay(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("podman")
    assert mlpack("configure", package, "--overlay", "single-node", "--registry", "r.example").code == 0
    done = mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run")
    assert done.stdout == f"podman build --tag={IMAGE} --tag=r.example/mpioperator/mpi-pi:openmpi -- {package}\n"
    done = mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run", "--overlay", "single-node")
    assert done.stdout == f"podman build --tag=r.example/mpioperator/mpi-pi:openmpi -- {package}\n"


def test_image_build_passes_extra_arguments_to_builder(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("buildah")
    done = mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run", "--", "--isolation", "chroot")
    assert done.stdout == f"buildah build --tag={IMAGE} --isolation chroot -- {package}\n"


def test_image_build_reports_failed_builder(mlpack: Mlpack, package: Path, kubectl: Path, install: Install) -> None:
    install("docker", work="exit 3")
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (6, "")
    assert "docker build ended with exit code 3" in done.stderr


def test_image_push_refuses_localhost_registry(mlpack: Mlpack, package: Path, kubectl: Path, install: Install) -> None:
    install("docker")
    done = mlpack("image", "push", package, "--kubectl", kubectl, "--registry", "localhost")
    assert done.code == 2
    assert "has no registry: localhost is this machine" in done.stderr


def test_image_build_refuses_package_without_dockerfile(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("docker")
    (package / "Dockerfile").unlink()
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert done.code == 2
    assert "contains no Dockerfile" in done.stderr


def test_image_build_requires_builder(mlpack: Mlpack, package: Path, kubectl: Path, install: Install) -> None:
    install("buildah")
    missing = mlpack("image", "build", package, "--kubectl", kubectl, "--with", "kaniko")
    assert (missing.code, "kaniko: program not found" in missing.stderr) == (6, True)


@pytest.mark.parametrize("image", ["--authfile=/etc/x\x1b"])
def test_image_build_and_push_refuse_invalid_image_name(
    mlpack: Mlpack, life: Life, install: Install, tmp_path: Path, image: str
) -> None:
    install("docker")
    life.overlays["single-node"][-1]["spec"]["containers"][0]["image"] = image
    for verb in ("build", "push"):
        done = mlpack("image", verb, "hello-mpi", "--overlay", "single-node", "--with", "docker")
        assert (done.code, done.stdout) == (5, "")
        shown = printable(repr(image))
        assert done.stderr == f"error: hello-mpi, single-node: expected an image name, found {shown}\n"
    assert life.commands == []
    assert not (tmp_path / "docker.log").exists()


@pytest.mark.thorough
def test_image_build_dry_run_prints_runnable_command_for_archive(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker")
    assert mlpack("build", "hello-mpi").code == 0
    archive = tmp_path / "a b:c.tar.gz"
    (tmp_path / "hello-mpi.tar.gz").rename(archive)
    done = mlpack("image", "build", archive.name, "--kubectl", kubectl, "--dry-run")
    context = "hello-mpi.context/hello-mpi"
    assert done.stdout == (
        "mkdir hello-mpi.context && tar -xzf './a b:c.tar.gz' -C hello-mpi.context"
        f" && docker build --tag={IMAGE} -- {context}\n"
    )
    _type(done.stdout, tmp_path)
    assert (tmp_path / "docker.log").read_text() == f"build --tag={IMAGE} -- {context}\n"
    assert (tmp_path / context / "Dockerfile").read_bytes() == (package / "Dockerfile").read_bytes()
    (tmp_path / context / "Dockerfile").write_text("mine")
    with pytest.raises(subprocess.CalledProcessError):
        _type(done.stdout, tmp_path)
    assert (tmp_path / context / "Dockerfile").read_text() == "mine", "an existing file was overwritten"


@pytest.mark.parametrize("name", ["-x", "$(id)"])
def test_image_build_dry_run_prints_runnable_command_for_folder(
    name: str, mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker")
    folder = tmp_path / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    package.rename(folder)
    done = mlpack("image", "build", "--kubectl", kubectl, "--dry-run", "--", name)
    _type(done.stdout, tmp_path)
    context = name if name == "$(id)" else f"./{name}"
    assert (tmp_path / "docker.log").read_text() == f"build --tag={IMAGE} -- {context}\n"
    pushed = mlpack("image", "push", "--kubectl", kubectl, "--dry-run", "--", name)
    _type(pushed.stdout, tmp_path)
    assert (tmp_path / "docker.log").read_text().endswith(f"push -- {IMAGE}\n")


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_image_build_and_push_print_commands_as_json(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path, dry_run: tuple[str, ...]
) -> None:
    install("docker")
    common = {"builder": "docker", "images": [IMAGE]}
    built = mlpack("image", "build", package, "--kubectl", kubectl, "-o", "json", *dry_run)
    assert (built.code, built.json) == (0, {**common, "commands": [f"docker build --tag={IMAGE} -- {package}"]})
    pushed = mlpack("image", "push", package, "--kubectl", kubectl, "-o", "json", *dry_run)
    assert (pushed.code, pushed.json) == (0, {**common, "commands": [f"docker push -- {IMAGE}"]})
    assert (tmp_path / "docker.log").exists() is not bool(dry_run)


def _type(command: str, folder: Path) -> None:
    subprocess.run(["sh", "-e"], input=command, text=True, check=True, cwd=folder, capture_output=True)


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def two_images(mlpack: Mlpack, tmp_path: Path) -> Path:
    """A package in which the overlay single-node uses an image that is not built from the package."""
    other = "{kind: Pod} => {kind: Pod, image: {name: team/other, tag: v1, registry: ghcr.io}}"
    spec = demo.changed('{name: demo, tag: "1.0"} => {name: demo, tag: "1.0", dockerfile: Dockerfile}', other)
    demo.write(tmp_path / "demo", spec, {"Dockerfile": "FROM x\n"})
    assert mlpack("build", "./demo", "--format", "dir", "-d", "out").code == 0
    return tmp_path / "out/demo-fp32-training"


@pytest.mark.thorough
def test_image_build_and_push_skip_image_of_single_overlay(
    mlpack: Mlpack, two_images: Path, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker")
    for verb in ("build", "push"):
        done = mlpack("image", verb, two_images, "--kubectl", kubectl)
        assert (done.code, done.stdout) == (0, "docker.io/demo:1.0\n")
    assert "other" not in (tmp_path / "docker.log").read_text()
    done = mlpack("image", "push", two_images, "--overlay", "single-node", "--kubectl", kubectl)
    assert (done.code, done.stderr) == (
        2,
        f"error: {two_images}: the image is built elsewhere: ghcr.io/team/other:v1\nhint: choose another overlay\n",
    )


@pytest.mark.thorough
def test_image_push_refuses_image_with_digest(mlpack: Mlpack, kubectl: Path, install: Install, tmp_path: Path) -> None:
    install("docker")
    digest = f"sha256:{'0' * 64}"
    demo.write(tmp_path / "demo", demo.changed(f'tag: "1.0" => digest: "{digest}"'))
    assert mlpack("build", "./demo", "--format", "dir").code == 0
    done = mlpack("image", "push", "demo-fp32-training", "--kubectl", kubectl)
    message = f"error: docker.io/demo@{digest} has a digest: it is in its registry already\n"
    assert (done.code, done.stderr) == (2, f"{message}hint: nothing has to be pushed\n")

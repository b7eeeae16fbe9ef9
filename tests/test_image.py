from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Outcome

    Mlpack = Callable[..., Outcome]
    Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a machine with nothing but the builders that are installed, each of which notes how it is called."""
    folder = tmp_path / "machine"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    for name in ("docker", "podman", "buildah"):  # in front of those that this machine may have
        _script(folder / name, "exit 127")

    def make(name: str, info: str = "exit 0", work: str = "exit 0") -> None:
        log = shlex.quote(str(tmp_path / f"{name}.log"))
        _script(folder / name, f'if [ "$1" = info ]; then {info}; fi\necho "$@" >> {log}\necho progress\n{work}')

    return make


@pytest.fixture
def package(mlpack: Mlpack, tmp_path: Path) -> Path:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    return tmp_path / "hello-mpi"


IMAGE = "docker.io/mpioperator/mpi-pi:openmpi"


def test_it_is_built_in_the_package_under_the_name_that_the_pods_call(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker")
    install("buildah")
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, f"{IMAGE}\n")
    assert (tmp_path / "docker.log").read_text() == f"build --tag {IMAGE} {package}\n"
    assert not (tmp_path / "buildah.log").exists()
    assert f"+ docker build --tag {IMAGE} {package}" in done.stderr


def test_a_docker_without_its_daemon_is_passed_over(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path
) -> None:
    install("docker", info="echo Cannot connect to the Docker daemon >&2; exit 1")
    install("buildah")
    done = mlpack("image", "push", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (0, f"{IMAGE}\n")
    assert (tmp_path / "buildah.log").read_text() == f"push {IMAGE}\n"
    assert "docker does not work here: Cannot connect to the Docker daemon; taking buildah" in done.stderr


def test_another_registry_takes_the_place_of_the_first(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("podman")
    done = mlpack("image", "push", package, "--kubectl", kubectl, "--registry", "r.example:5000/a/b", "--dry-run")
    assert done.stdout == "podman push r.example:5000/a/b/mpioperator/mpi-pi:openmpi\n"


def test_each_name_that_the_overlays_call_it_is_a_tag(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("podman")
    assert mlpack("configure", package, "--overlay", "single-node", "--registry", "r.example").code == 0
    done = mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run")
    assert done.stdout == f"podman build --tag {IMAGE} --tag r.example/mpioperator/mpi-pi:openmpi {package}\n"
    done = mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run", "--overlay", "single-node")
    assert done.stdout == f"podman build --tag r.example/mpioperator/mpi-pi:openmpi {package}\n"


def test_what_follows_the_dashes_goes_to_the_builder(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("buildah")
    done = mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run", "--", "--isolation", "chroot")
    assert done.stdout == f"buildah build --tag {IMAGE} --isolation chroot {package}\n"


def test_a_dry_run_runs_nothing(mlpack: Mlpack, package: Path, kubectl: Path, install: Install, tmp_path: Path) -> None:
    install("docker")
    assert mlpack("image", "build", package, "--kubectl", kubectl, "--dry-run").code == 0
    assert not (tmp_path / "docker.log").exists()


def test_a_build_that_fails_is_a_tool_that_failed(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("docker", work="exit 3")
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert (done.code, done.stdout) == (6, "")
    assert "docker build ended with exit code 3" in done.stderr


def test_nothing_here_builds_images(mlpack: Mlpack, package: Path, kubectl: Path, install: Install) -> None:
    install("docker", info="echo no daemon >&2; exit 1")
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert done.code == 6
    assert "nothing here builds images: docker does not work here: no daemon" in done.stderr
    assert mlpack("image", "build", package, "--kubectl", kubectl, "--with", "kaniko").code == 6


def test_this_machine_is_no_registry_to_push_to(mlpack: Mlpack, package: Path, kubectl: Path, install: Install) -> None:
    install("docker")
    done = mlpack("image", "push", package, "--kubectl", kubectl, "--registry", "localhost")
    assert done.code == 2
    assert "names no registry, only this machine" in done.stderr


def test_a_package_without_a_dockerfile_has_nothing_to_build(
    mlpack: Mlpack, package: Path, kubectl: Path, install: Install
) -> None:
    install("docker")
    (package / "Dockerfile").unlink()
    done = mlpack("image", "build", package, "--kubectl", kubectl)
    assert done.code == 2
    assert "brings no Dockerfile" in done.stderr


def _script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)

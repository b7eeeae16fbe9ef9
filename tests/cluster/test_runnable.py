"""Tests of the use case `packager.cluster.runnable`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from packager.base.errors import SpecError, ToolError, UsageError
from packager.builder.build import BuildRequest
from packager.cluster.runnable import RunRequest, runnable
from packager.cluster.sequence import Runnable
from packager.package.opened import opened
from tests import demo

CUBE = """\
name: hello_world
docker: {image: "example.com/hello:1", gpu_args: "--shm-size=1G"}
k8s: {namespace: team}
tasks:
  say_hello: {parameters: {inputs: {name: names/alice.txt}, outputs: {chat: {type: file}}}}
  bye: {parameters: {outputs: {chat: {type: file}}}}
"""


@pytest.fixture
def cube(tmp_path: Path) -> Path:
    folder = tmp_path / "cube"
    folder.mkdir()
    (folder / "mlcube.yaml").write_text(CUBE, encoding="utf-8")
    return folder


@contextmanager
def no_progress(label: str, total: int, *, unit: str) -> Iterator[Callable[[int], None]]:  # noqa: ARG001
    yield lambda _steps: None


def made(path: Path, cache: Path, **build: Any) -> Runnable:
    request = RunRequest(path, BuildRequest(None, (), cache=cache, **build))
    return runnable(request, tell=lambda _text: None, progress=no_progress)


def test_runnable_uses_package_unchanged(hello_mpi: Path, tmp_path: Path) -> None:
    assert made(hello_mpi, tmp_path / "cache") == Runnable(hello_mpi, hello_mpi)
    assert not (tmp_path / "cache").exists()


def test_runnable_imports_and_builds_cube_with_shared_memory(cube: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    request = RunRequest(cube, BuildRequest(None, (), cache=tmp_path / "cache", site=("SHM_SIZE=2Gi",)))
    result = runnable(request, tell=notes.append, progress=no_progress)
    assert (result.source, result.is_cube, result.namespace) == (cube, True, "team")
    assert any("mlcube.yaml" in note and "cpu_args" not in note for note in notes)
    with opened(result.package) as package:
        assert (package.name, package.overlays) == ("hello-world-task", ("bye", "say-hello"))
        assert result.overlay("say_hello", package.overlays) == "say-hello"
        assert package.inventory["spec"]["with"] == ["shared-memory"]
        (site,) = package.folder.glob("quickstart/common/*/k8s/mlops/site/site.env")
        assert "\nSHM_SIZE=2Gi\n" in site.read_text()


def test_runnable_reuses_package_of_same_cube(cube: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = made(cube, cache)
    content = first.package.read_bytes()
    assert made(cube / "../cube", cache).package == first.package
    assert (first.package.read_bytes(), len(list(cache.glob("runs/*/*")))) == (content, 1)
    other = cube.rename(tmp_path / "other")
    assert made(other, cache).package != first.package


def test_runnable_builds_model(tmp_path: Path) -> None:
    spec = demo.write(tmp_path / "demo")
    second = spec.with_name("second.spec.yaml")
    second.write_bytes(spec.read_bytes())
    for path in (spec, spec.parent, second):
        with opened(made(path, tmp_path / "cache", settings=("title=Other",)).package) as package:
            assert (package.name, package.inventory["spec"]["set"]) == ("demo-fp32-training", ["title=Other"])


def test_runnable_reports_problems_with_path_of_cube(cube: Path, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as invalid:
        made(cube, tmp_path / "cache", settings=("name=X",))
    messages = [str(invalid.value), *map(str, invalid.value.problems), str(invalid.value.hint)]
    assert not any(".mlpack-" in message for message in messages)
    assert any(f"the spec of {cube}" in message for message in messages)
    (cube / "mlcube.yaml").write_text("tasks: 1\n")
    with pytest.raises(SpecError, match=r"mlcube\.yaml"):
        made(cube, tmp_path / "cache")


def test_runnable_refuses_cache_that_others_can_write_to(cube: Path, tmp_path: Path) -> None:
    folder = made(cube, tmp_path / "cache").package.parent
    folder.chmod(0o777)
    with pytest.raises(ToolError, match="must be a folder of yours that only you can write to"):
        made(cube, tmp_path / "cache")


@pytest.mark.parametrize("name", ["nowhere", "mlcube.yaml"])
def test_runnable_reports_missing_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no"):
        made(tmp_path / name, tmp_path / "cache")

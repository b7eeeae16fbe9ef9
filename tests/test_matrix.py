"""The promise of compatibility: every kubectl renders every overlay to the same bytes, and without a word."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from packager import render, tree
from packager.components import KEYS, possible
from packager.plan import Options, choose, plan
from packager.selection import select
from packager.spec import catalog, load
from tests import kubectls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.matrix


def overlays() -> Iterator[tuple[str, str]]:
    """Yield every overlay of every bundled package: the names of both."""
    for path in catalog.specs([catalog.bundled()]):
        spec = load.load(path).spec
        for variant in spec.variants:
            for overlay in variant.overlays or spec.overlays:
                yield spec.package_name(variant), overlay


OVERLAYS = list(overlays())

OPTIONS = list(possible())
# A kubectl takes longest to start, and to resolve the names of many objects: these many at a time take least in all.
BATCHES = [OPTIONS[start : start + 9] for start in range(0, len(OPTIONS), 9)]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every bundled package."""
    folder = tmp_path_factory.mktemp("packages")
    build = [sys.executable, "-m", "packager", "build", "--all", "--format", "dir", "-d", str(folder)]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    return folder


def assert_alike(kustomization: Path, versions: Sequence[str] = kubectls.VERSIONS) -> str:
    """Render with the kubectl of every version, and return what all of them make of it."""

    def render(version: str) -> subprocess.CompletedProcess[str]:
        argv = [str(kubectls.kubectl(version)), "kustomize", str(kustomization)]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        results = dict(zip(versions, threads.map(render, versions), strict=True))
    assert {version: done.stderr for version, done in results.items() if done.returncode or done.stderr} == {}
    oldest = versions[0]
    expected = results[oldest].stdout
    differences = [
        line
        for version, done in results.items()
        for line in difflib.unified_diff(expected.splitlines(), done.stdout.splitlines(), oldest, version, lineterm="")
    ]
    assert differences == []
    assert {done.stdout for done in results.values()} == {expected}
    return expected


def write(folder: Path, *resources: str, prefix: str = "", namespace: str = "") -> None:
    """Write a kustomization over others."""
    content = {"namePrefix": prefix, "namespace": namespace, "resources": resources}
    (folder / "kustomization.yaml").write_text(json.dumps({key: value for key, value in content.items() if value}))


def test_there_is_something_to_render() -> None:
    assert ("resnet50v1-5-fp32-training", "multi-node") in OVERLAYS
    assert ("hello-mpi", "single-node") in OVERLAYS


@pytest.mark.parametrize(("package", "overlay"), OVERLAYS, ids=["/".join(pair) for pair in OVERLAYS])
def test_overlay(packages: Path, package: str, overlay: str) -> None:
    rendered = assert_alike(packages / package / "quickstart/k8s/mlops" / overlay)
    assert f"name: {package}-{overlay}\n" in rendered


def test_an_overlay_of_ones_own_over_all(packages: Path, tmp_path: Path) -> None:
    overlays = [packages / package / "quickstart/k8s/mlops" / overlay for package, overlay in OVERLAYS]
    write(tmp_path, *(os.path.relpath(overlay, tmp_path) for overlay in overlays), prefix="alice-", namespace="team")
    rendered = assert_alike(tmp_path)
    for package, overlay in OVERLAYS:
        assert f"name: alice-{package}-{overlay}\n" in rendered
    assert "namespace: team\n" in rendered


@pytest.mark.parametrize("batch", BATCHES, ids=lambda batch: f"{'+'.join(batch[0])}...{'+'.join(batch[-1])}")
def test_the_options_of_a_site(tmp_path: Path, batch: list[tuple[str, ...]]) -> None:
    """Each option, and every two that go together, in both overlays of a package."""
    loaded = load.load(catalog.find("hello-mpi", [catalog.bundled()]))
    values = [f"{name}={key.example}" for name, key in KEYS.items()]
    names = ["-".join(options) for options in batch]
    for options, name in zip(batch, names, strict=True):
        site = Options(root="/srv", site=select(options, values))
        package = render.render(plan(loaded, choose(loaded.spec, None, None), site))
        (tmp_path / name).mkdir()
        tree.write(package, tmp_path / name)
        overlays = [f"quickstart/k8s/mlops/{overlay}" for overlay in loaded.spec.overlays]
        write(tmp_path / name, *overlays, prefix=f"{name}-")
    write(tmp_path, *names)
    rendered = assert_alike(tmp_path)
    for name in names:
        for overlay in loaded.spec.overlays:
            assert f"name: {name}-hello-mpi-{overlay}\n" in rendered

"""The package of a model that uses every key for code: each file as it is written, each overlay as kubectl renders it.

`make golden` writes all of it again.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.builder.plan import Options, plan
from packager.builder.render import render
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.modelspec.load import load
from packager.package import tree
from tests import everything
from tests.builder.test_packages import as_difference, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pytest_golden.plugin import GoldenTestFixture

    from tests.conftest import Outcome


@pytest.fixture
def package(tmp_path: Path) -> Path:
    loaded = load(everything.write(tmp_path / "model"))
    built = tmp_path / "everything"
    built.mkdir()
    tree.write(render(plan(loaded, loaded.spec.variants[0], Options())), built)
    return built


def rendered(package: Path, overlay: str, kubectl: Path) -> list[dict[str, Any]]:
    done = kustomize(package / "quickstart/k8s/mlops" / overlay, program=str(kubectl))
    assert done.warnings == ()
    return list(yaml.safe_load_all(done.manifests))


def _twins(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the files of which the expected output has only the difference from another one."""
    for name in names:
        folder, _, file = name.rpartition("/")
        if file == "kustomization.yaml" and folder.startswith("quickstart/k8s/mlops/") and not folder.endswith("/pod"):
            yield name, "quickstart/k8s/mlops/pod/kustomization.yaml"
        elif folder.endswith("/command"):
            yield name, name.replace("/command/", "/job/")


@pytest.mark.usefixtures("long_lines")
@pytest.mark.golden_test("../golden/everything.yml")
def test_package_with_every_key_has_expected_files_and_manifests(
    golden: GoldenTestFixture, package: Path, kubectl: Path
) -> None:
    contents = {}
    for path in sorted(file for file in package.rglob("*") if file.is_file()):
        name = path.relative_to(package).as_posix()
        source = name.removeprefix("quickstart/scripts/")
        if source in everything.FILES or name in ("manifest.json", "spec.yaml"):
            contents[name] = "a copy" if source in everything.FILES else "see tests/everything.py"
        elif "/common/" not in name or name.endswith("-names.yaml"):
            contents[name] = path.read_text()
    for name, twin in _twins(contents):
        contents[name] = as_difference(contents[name], contents[twin], twin)
    assert contents == golden.out["files"]
    folder = package / "quickstart/k8s/mlops"
    manifests = {
        overlay: shown(folder / overlay, rendered(package, overlay, kubectl)) for overlay in everything.OVERLAYS
    }
    first, *rest = everything.OVERLAYS
    for overlay in rest:
        for name, manifest in manifests[overlay].items():
            as_first = json.loads(json.dumps(manifest).replace(f"-{overlay}", f"-{first}"))
            if as_first == manifests[first].get(name.replace(f"-{overlay}", f"-{first}")):
                manifests[overlay][name] = f"as in {first}"
    assert manifests == golden.out["manifests"]


def pods_of(item: Any) -> Iterator[dict[str, Any]]:
    """Yield each Pod and pod template in an object: what has `metadata` beside a spec with containers."""
    if isinstance(item, dict):
        if "containers" in (item.get("spec") or {}):
            yield item
        item = list(item.values())
    for value in item if isinstance(item, list) else ():
        yield from pods_of(value)


def test_package_with_every_key_verifies_as_restricted(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    everything.write(tmp_path / "model")
    assert mlpack("lint", "./model").code == 0
    assert mlpack("build", "./model", "--format", "dir").code == 0
    done = mlpack("verify", "everything", "--pod-security", "restricted")
    assert (done.code, done.stdout) == (0, "")

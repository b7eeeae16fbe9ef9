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
from tests import demo, everything
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


@pytest.mark.parametrize(("overlay", "templates"), [("pod", 1), ("job", 1), ("mpi", 2), ("server", 1), ("servers", 3)])
def test_pods_of_every_kind_have_the_labels_of_their_workload(
    overlay: str, templates: int, package: Path, kubectl: Path
) -> None:
    pods = list(pods_of(rendered(package, overlay, kubectl)))
    assert len(pods) == templates
    for pod in pods:
        labels = pod["metadata"]["labels"]
        assert {key: labels[key] for key in labels if key.rpartition("/")[2] in ("name", "instance", "managed-by")} == {
            "app.kubernetes.io/name": "everything",
            "app.kubernetes.io/instance": f"everything-{overlay}",
            "app.kubernetes.io/managed-by": "mlpack",
        }


@pytest.mark.parametrize(("overlay", "seconds"), [("pod", {None}), ("job", {120}), ("mpi", {60}), ("servers", {90})])
def test_pods_that_train_stop_within_the_time_of_the_spec(
    overlay: str, seconds: set[int | None], package: Path, kubectl: Path
) -> None:
    pods = list(pods_of(rendered(package, overlay, kubectl)))
    assert {pod["spec"].get("terminationGracePeriodSeconds") for pod in pods} == seconds


def test_package_with_every_key_verifies_as_restricted(mlpack: Callable[..., Outcome], tmp_path: Path) -> None:
    everything.write(tmp_path / "model")
    assert mlpack("lint", "./model").code == 0
    assert mlpack("build", "./model", "--format", "dir").code == 0
    done = mlpack("verify", "everything", "--pod-security", "restricted")
    assert (done.code, done.stdout) == (0, "")


def test_volumes_mount_each_file_once_at_its_path_in_the_spec(package: Path, kubectl: Path) -> None:
    """All ConfigMaps of an overlay together hold each file once, and the volume gives it its path."""
    for overlay in everything.OVERLAYS:
        manifests = rendered(package, overlay, kubectl)
        maps = {item["metadata"]["name"]: item["data"] for item in manifests if item["kind"] == "ConfigMap"}
        volumes = [volume for volume in _volumes(manifests) if volume.get("name") == "scripts"]
        assert len(volumes) == (3 if overlay == "servers" else 1)
        for volume in volumes:
            sources = [source["configMap"] for source in volume["projected"]["sources"]]
            files = {item["path"]: maps[source["name"]][item["key"]] for source in sources for item in source["items"]}
            expected = {name: text for name, text in everything.FILES.items() if name != "conf/a.json"}
            assert files == {"train.sh": (package / "quickstart/scripts/train.sh").read_text(), **expected}
            assert len(sources) == 3
            assert all(sum(len(text) for text in maps[source["name"]].values()) <= 200 << 10 for source in sources)


def _volumes(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [volume for item in node for volume in _volumes(item)]
    if not isinstance(node, dict):
        return []
    return [*node.get("volumes", ()), *(volume for value in node.values() for volume in _volumes(value))]


def test_readme_lists_kubectl_commands_for_each_step_of_the_sequence(package: Path) -> None:
    """Each block of commands ends when its workload does; printed is the word that the text below it names."""
    text = (package / "README.md").read_text()
    section = text.partition("## One after the other\n")[2].partition("\n## ")[0]
    steps = section.split("\n### ")[1:]
    assert [step.partition("\n")[0] for step in steps] == ["1. pod", "2. job", "3. mpi", "4. servers", "5. server"]
    for step, name, kind, word in zip(
        steps,
        ("pod", "job", "mpi", "servers", "server"),
        ("pod", "job", "mpijob", "jobset", "deployment"),
        ("Succeeded", "Complete", "Succeeded", "Completed", "successfully rolled out"),
        strict=True,
    ):
        apply, wait = step.partition("```sh\n")[2].partition("```")[0].splitlines()
        assert apply == f"kubectl -k quickstart/k8s/mlops/{name} apply"
        assert f"{kind}/everything-{name}" in wait
        assert f"`{word}`" in step
        assert kind == "deployment" or f"'{word}|Failed'" in wait
    assert "kubectl delete pod/everything-pod" in section


def test_readme_has_no_sequence_section_without_a_sequence(tmp_path: Path) -> None:
    loaded = load(demo.write(tmp_path))
    package = render(plan(loaded, loaded.spec.variants[0], Options()))
    readme = next(entry.content for entry in package.entries if entry.path == "README.md")
    assert isinstance(readme, bytes)
    assert b"One after the other" not in readme

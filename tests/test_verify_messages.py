"""Each finding that `tests/broken` has no package for, in its own words."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import yaml

from packager import process
from packager.cluster.client import Kubectl
from packager.errors import ToolError
from packager.kubectl import Rendered
from packager.package import opened
from packager.verify import Checks, containers, kustomization, mpi, names, options, references, verify
from packager.verify.overlay import Manifest, Overlay
from tests.broken import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SINGLE = "quickstart/k8s/mlops/single-node"
MULTI = "quickstart/k8s/mlops/multi-node"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


def changed(package: Path, folder: str, file: str, change: Callable[[dict[str, Any]], object]) -> Overlay:
    """Return an overlay of one manifest, that of `file` with a change."""
    manifest = yaml.safe_load((package / folder / file).read_text(encoding="utf-8"))
    change(manifest)
    with opened(package) as found:
        return Overlay(folder.rpartition("/")[2], (Manifest(manifest),), kustomization.read(found, folder))


def of_container(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def mounted(*paths: str) -> Callable[[dict[str, Any]], object]:
    return of_container(volumeMounts=[{"name": "output", "mountPath": path} for path in paths])


def doubled(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda pod: pod["spec"][key].append(deepcopy(pod["spec"][key][0]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (of_container(image=None), "the container has no image"),
        (of_container(image="a b"), "'a b' is no image"),
        (of_container(image="example/a"), "has neither tag nor digest: tomorrow it is another image (name a tag)"),
        (of_container(resources={"requests": {"cpu": "-1"}}), "-1 is negative"),
        (of_container(resources={"limits": {"cpu": "much"}}), "expected a quantity such as 500m or 4Gi, found 'much'"),
        (of_container(securityContext={"runAsUser": 0}), "(choose another user)"),
        (of_container(securityContext={"runAsUser": -5}), "expected 0 to 2147483647, found -5"),
        (doubled("containers"), "there are two containers 'main'"),
        (doubled("volumes"), "there are two volumes 'output'"),
        (mounted("/a", "/a"), "/a is mounted over twice"),
        (mounted("/a:b"), "'/a:b' holds a ':', which no mountPath may"),
        (of_container(volumeMounts=[{"name": "outputs", "mountPath": "/a"}]), "there is no volume 'outputs'"),
        (of_container(envFrom=[{"configMapRef": {"name": "mine"}}]), "the overlay has no ConfigMap 'mine'"),
    ],
)
def test_a_pod(change: Callable[[dict[str, Any]], object], said: str, package: Path) -> None:
    overlay = changed(package, SINGLE, "pod.yaml", change)
    problems = [str(problem) for check in (containers.check, references.check) for problem in check(overlay)]
    assert any(said in problem for problem in problems), problems


def replica(role: str, count: int) -> Callable[[dict[str, Any]], object]:
    return lambda job: job["spec"]["mpiReplicaSpecs"][role].update(replicas=count)


def renamed(before: str, after: str) -> Callable[[dict[str, Any]], object]:
    def change(job: dict[str, Any]) -> None:
        job["spec"]["mpiReplicaSpecs"][after] = job["spec"]["mpiReplicaSpecs"].pop(before)

    return change


def processes(count: str) -> Callable[[dict[str, Any]], object]:
    def change(job: dict[str, Any]) -> None:
        command = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
        command[command.index("all")] = count

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda job: job["spec"]["mpiReplicaSpecs"].pop("Launcher"), "there is no Launcher"),
        (renamed("Worker", "Workers"), "there is no role 'Workers' in an MPIJob (did you mean 'Worker'?)"),
        (replica("Launcher", 2), "expected 1, found 2"),
        (replica("Worker", 0), "expected at least 1, found 0"),
        (processes("0"), "expected at least 1 process, found 0"),
        (processes("3"), "3 processes, and 2 workers x 1 slots hold 2"),
        (lambda job: job["metadata"].update(name="a" * 300), "300 characters, and at most "),
    ],
)
def test_an_mpijob(change: Callable[[dict[str, Any]], object], said: str, package: Path) -> None:
    overlay = changed(package, MULTI, "mpi-job.yaml", change)
    problems = [str(problem) for check in (mpi.check, names.check) for problem in check(overlay)]
    assert any(said in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("listed", "line", "said"),
    [
        (("queue", "queue"), 8, "this component is listed twice (keep one of them)"),
        (
            ("scratch", "gpu", "nfs"),
            9,
            "scratch and nfs do not go together: each says where results go (keep one of them)",
        ),
        (("gpu", "pvc-create"), 8, "pvc-create adds to pvc, which is not on (switch pvc on too)"),
    ],
    ids=["twice", "two storages", "alone"],
)
def test_options_that_are_listed(listed: tuple[str, ...], line: int, said: str, tmp_path: Path) -> None:
    package = build(tmp_path / "package")
    path = package / SINGLE / "kustomization.yaml"
    before, components, after = path.read_text(encoding="utf-8").partition("components:\n")
    head = "".join(line for line in before.splitlines(keepends=True) if not line.startswith("#"))
    lines = [f"  - ../../../common/mpi/k8s/mlops/{name}\n" for name in listed]
    path.write_text("".join((head, components, *lines, after)), encoding="utf-8")
    with opened(package) as found:
        problems = [str(problem) for problem in options.check(kustomization.read(found, SINGLE), SINGLE)]
    assert f"{path}:{line}:5: {said}" in problems


@pytest.mark.parametrize(
    ("kib", "said"),
    [
        (300, "KiB, and `kubectl apply` takes 256 KiB (put large files into the image or on storage)"),
        (1100, "KiB, and Kubernetes takes 1,024 KiB"),
    ],
)
def test_a_config_map_that_is_too_large(kib: int, said: str, package: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x" * (kib << 10)}}
    with opened(package) as found:
        overlay = Overlay("single-node", (Manifest(config),), kustomization.read(found, SINGLE))
    [problem] = containers.check(overlay)
    assert said in str(problem)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "expected one mapping"),
        ({"vars": []}, "vars is deprecated, and later versions of kustomize drop it (use `replacements`)"),
        ({"helmCharts": []}, "helmCharts needs more than kubectl"),
        (
            {"configMapGenerator": [{"name": "c", "env": "mlops.env"}]},
            "env is deprecated, and later versions of kustomize drop it (use `envs`)",
        ),
        ({"configMapGenerator": [{"literals": ["A=1"]}]}, "expected a name, and what to generate from"),
        ({"configMapGenerator": [{"name": "c", "files": ["folder"]}]}, "folder is a folder"),
        ({"patches": [{"path": "folder"}]}, "folder is a folder"),
        ({"patches": ["a.yaml"]}, "expected a mapping with `path` or `patch`"),
        ({"resources": ["https://example.com/a.yaml"]}, "is fetched from elsewhere, and a package brings all it needs"),
        (
            {"patches": [{"path": "../multi-node/mlops.env"}]},
            "kustomize reads no file from outside the kustomization's",
        ),
        ({"resources": ["text.yaml"]}, "expected a manifest"),
        ({"resource": []}, "there is no field 'resource' here (did you mean 'resources'?)"),
    ],
    ids=str,
)
def test_a_kustomization(content: Any, said: str, tmp_path: Path) -> None:
    package = build(tmp_path / "package")
    (package / SINGLE / "folder").mkdir()
    (package / SINGLE / "text.yaml").write_text("text\n", encoding="utf-8")
    (package / SINGLE / "kustomization.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    with opened(package) as found:
        sources = kustomization.read(found, SINGLE)
    assert any(said in str(problem) for problem in sources.problems), sources.problems


def test_a_literal_is_where_a_finding_about_its_key_points(tmp_path: Path) -> None:
    package = build(tmp_path / "package")
    path = package / SINGLE / "kustomization.yaml"
    path.write_text("configMapGenerator:\n  - name: c\n    literals:\n      - A=1\n      - B=2\n", encoding="utf-8")
    config = Manifest({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"A": "1", "B": "2"}})
    with opened(package) as found:
        overlay = Overlay("single-node", (config,), kustomization.read(found, SINGLE))
    assert str(overlay.problem(config, ("data", "B"), "wrong")) == f"{path}:5:9: ConfigMap c: data.B: wrong"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ("kind: A\nmetadata:\n  name: a\nspec: {}\n", "one of them has more lines"),
        ("kind: A\nmetadata:\n  name: b\n", "line 3 is 'name: b' instead of 'name: a'"),
    ],
)
def test_what_two_kubectls_render(other: str, said: str, package: Path) -> None:
    texts = {"old": "kind: A\nmetadata:\n  name: a\n", "new": other}
    rendered = mock.patch(
        "packager.verify.rendering.kustomize", side_effect=lambda _folder, program: Rendered(texts[program], ())
    )
    with opened(package) as found, rendered:
        problems = [str(problem) for problem in verify(found, Checks(kubectls=("old", "new"))).problems]
    assert problems == [
        f"{package}/{folder}/kustomization.yaml:1:1: new renders something else than old: {said}"
        for folder in (MULTI, SINGLE)
    ]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (process.Finished(3, "", ""), "kubectl ended with 3 and no word"),
        (
            process.Finished(1, "", "E1121 10:00:00.000000       1 memcache.go:1] \n"),
            "kubectl ended with 1 and no word",
        ),
        (ToolError("kubectl did not end within 120 seconds"), "kubectl did not end within 120 seconds"),
    ],
    ids=["no word", "an empty log line", "no end"],
)
def test_a_cluster_that_says_nothing(answer: process.Finished | ToolError, said: str, package: Path) -> None:
    rendered = mock.patch("packager.verify.rendering.kustomize", return_value=Rendered("kind: List\n", ()))
    asked = mock.patch.object(process, "run", side_effect=[answer, answer])
    with opened(package) as found, rendered, asked:
        report = verify(found, Checks(server=Kubectl()))
    assert [line for line in report.unchecked if "cluster" in line] == [
        f"the cluster could not judge {name}: {said}" for name in ("multi-node", "single-node")
    ]


def test_what_kubectl_renders_and_nobody_can_read(package: Path) -> None:
    rendered = mock.patch("packager.verify.rendering.kustomize", return_value=Rendered("a: [", ()))
    with opened(package) as found, rendered:
        problems = [str(problem) for problem in verify(found, Checks()).problems]
    assert any("what it renders to: " in problem for problem in problems), problems

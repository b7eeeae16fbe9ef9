"""The messages of findings that no package of `tests/broken` causes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import yaml

from packager.base import process
from packager.base.errors import ToolError
from packager.base.process import Runner
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.kustomize import Rendered
from packager.kubernetes.manifest import Manifest
from packager.package.opened import opened
from packager.rendering import kustomization
from packager.rendering.overlay import RenderedOverlay
from packager.verify import Checks, allowed_fields, objects, options, verify
from tests.broken import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SINGLE = "quickstart/k8s/mlops/single-node"
MULTI = "quickstart/k8s/mlops/multi-node"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


def changed(package: Path, folder: str, file: str, change: Callable[[dict[str, Any]], object]) -> RenderedOverlay:
    """Return an overlay with one manifest: the changed content of `file`."""
    manifest = yaml.safe_load((package / folder / file).read_text(encoding="utf-8"))
    change(manifest)
    with opened(package) as opened_package:
        return RenderedOverlay(
            folder.rpartition("/")[2], (Manifest(manifest),), kustomization.read(opened_package, folder)
        )


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


def test_invalid_mpijob_field_is_reported(package: Path) -> None:
    for change, message in [
        (renamed("Worker", "Workers"), "spec.mpiReplicaSpecs.Workers: no build makes this field"),
        (replica("Launcher", 2), "expected 1, found the number 2"),
        (replica("Worker", 0), "expected at least 1, found 0"),
        (processes("0"), "expected at least 1 process, found 0"),
    ]:
        overlay = changed(package, MULTI, "mpi-job.yaml", change)
        problems = [str(problem) for problem in objects.check_kinds(overlay)]
        problems += [str(problem) for problem in allowed_fields.check(overlay, ())]
        assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("listed", "line", "message"),
    [
        (("queue", "queue"), 8, "this component is listed twice (keep one of them)"),
        (
            ("scratch", "gpu", "nfs"),
            9,
            "scratch and nfs cannot be combined: each sets where results go (keep one of them)",
        ),
        (("gpu", "pvc-create"), 8, "pvc-create needs pvc or output-pvc, which is off (switch pvc on as well)"),
    ],
    ids=["twice", "two storages", "alone"],
)
def test_invalid_list_of_components_is_reported_at_its_line(
    listed: tuple[str, ...], line: int, message: str, tmp_path: Path
) -> None:
    package = build(tmp_path / "package")
    path = package / SINGLE / "kustomization.yaml"
    before, components, after = path.read_text(encoding="utf-8").partition("components:\n")
    head = "".join(line for line in before.splitlines(keepends=True) if not line.startswith("#"))
    lines = [f"  - ../../../common/mpi/k8s/mlops/{name}\n" for name in listed]
    path.write_text("".join((head, components, *lines, after)), encoding="utf-8")
    with opened(package) as opened_package:
        problems = [str(problem) for problem in options.check(kustomization.read(opened_package, SINGLE), SINGLE)]
    assert f"{path}:{line}:5: {message}" in problems


KUSTOMIZATIONS: list[tuple[Any, str]] = [
    ([], "expected one mapping"),
    ({"configMapGenerator": [{"literals": ["A=1"]}]}, "expected a name, and what to generate from"),
    ({"configMapGenerator": [{"name": "c", "files": ["folder"]}]}, "folder is a folder"),
    ({"patches": [{"path": "folder"}]}, "folder is a folder"),
    ({"patches": ["a.yaml"]}, "expected a mapping with `path` or `patch`"),
    ({"patches": [{"path": "../multi-node/mlops.env"}]}, "kustomize reads no files outside the kustomization's"),
    ({"resources": ["text.yaml"]}, "expected a manifest"),
    ({"resource": []}, "unknown field 'resource' (did you mean 'resources'?)"),
]


def test_invalid_kustomization_is_reported(tmp_path: Path) -> None:
    package = build(tmp_path / "package")
    (package / SINGLE / "folder").mkdir()
    (package / SINGLE / "text.yaml").write_text("text\n", encoding="utf-8")
    for content, message in KUSTOMIZATIONS:
        (package / SINGLE / "kustomization.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
        with opened(package) as opened_package:
            sources = kustomization.read(opened_package, SINGLE)
        assert any(message in str(problem) for problem in sources.problems), sources.problems


def test_finding_about_a_key_points_at_its_literal(tmp_path: Path) -> None:
    package = build(tmp_path / "package")
    path = package / SINGLE / "kustomization.yaml"
    path.write_text("configMapGenerator:\n  - name: c\n    literals:\n      - A=1\n      - B=2\n", encoding="utf-8")
    config = Manifest({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"A": "1", "B": "2"}})
    with opened(package) as opened_package:
        overlay = RenderedOverlay("single-node", (config,), kustomization.read(opened_package, SINGLE))
    assert str(overlay.problem(config, ("data", "B"), "wrong")) == f"{path}:5:9: ConfigMap c: data.B: wrong"


def test_different_output_of_two_kubectls_is_reported(package: Path) -> None:
    for other, message in [
        ("kind: A\nmetadata:\n  name: a\nspec: {}\n", "one of them has more lines"),
        ("kind: A\nmetadata:\n  name: b\n", "line 3 is 'name: b' instead of 'name: a'"),
    ]:
        texts = {"old": "kind: A\nmetadata:\n  name: a\n", "new": other}
        rendered = mock.patch(
            "packager.rendering.render.kustomize",
            side_effect=lambda _folder, program, texts=texts, **_: Rendered(texts[program], ()),
        )
        checks = Checks(kubectls=("old", "new"), allowed=frozenset(("A", "name:a")))
        with opened(package) as opened_package, rendered:
            problems = [str(problem) for problem in verify(opened_package, checks).problems]
        assert problems == [
            f"{package}/{folder}/kustomization.yaml:1:1: new does not render the same as old: {message}"
            for folder in (MULTI, SINGLE)
        ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (process.Finished(3, "", ""), "kubectl ended with 3 and no message"),
        (
            process.Finished(1, "", "E1121 10:00:00.000000       1 memcache.go:1] \n"),
            "kubectl ended with 1 and no message",
        ),
        (ToolError("kubectl did not finish within 120 seconds"), "kubectl did not finish within 120 seconds"),
    ],
    ids=["no word", "an empty log line", "no end"],
)
def test_server_check_without_answer_is_unchecked(
    answer: process.Finished | ToolError, message: str, package: Path
) -> None:
    rendered = mock.patch("packager.rendering.render.kustomize", return_value=Rendered("kind: List\n", ()))
    asked = mock.patch.object(Runner, "run", side_effect=[answer, answer])
    with opened(package) as opened_package, rendered, asked:
        report = verify(opened_package, Checks(server=Kubectl()))
    assert [line for line in report.unchecked if "cluster" in line] == [
        f"the cluster could not check {name}: {message}" for name in ("multi-node", "single-node")
    ]

"""Inputs that once crashed `mlpack verify`, found by the fuzzer and by people: each must end in a finding."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import yaml

from packager.kubernetes.kubectl.kustomize import Rendered
from packager.kubernetes.manifest import Manifest
from packager.package.opened import opened
from packager.rendering import kustomization
from packager.rendering.overlay import RenderedOverlay
from packager.verify import Checks, containers, kinds, names, references, schema, security, verify
from tests.broken import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.thorough

SINGLE = "quickstart/k8s/mlops/single-node"

# Values in place of a text or a mapping.
ODD: tuple[Any, ...] = (None, True, 0, -1, 2**70, "", "x", [], {}, [[]], {"a": ["b"]}, [None], float("inf"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


@pytest.fixture(scope="module")
def pod(package: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = yaml.safe_load((package / SINGLE / "pod.yaml").read_text(encoding="utf-8"))
    return manifest


def _rendering(*manifests: Any) -> Any:
    text = yaml.safe_dump_all(manifests)
    return mock.patch("packager.rendering.render.kustomize", return_value=Rendered(text, ()))


def _every(value: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the location of each value of a manifest."""
    yield above
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield from _every(child, *above, step)


def test_checks_handle_any_value_in_any_field(package: Path, pod: dict[str, Any]) -> None:
    """The fuzzer found names, volumes and capabilities that are lists or mappings, which cannot be hashed."""
    with opened(package) as opened_package:
        sources = kustomization.read(opened_package, SINGLE)
    for location in list(_every(pod))[1:]:
        for odd in ODD:
            manifest = deepcopy(pod)
            holder: Any = manifest
            for step in location[:-1]:
                holder = holder[step]
            holder[location[-1]] = odd
            overlay = RenderedOverlay("single-node", (Manifest(manifest),), sources)
            security.exceeded(overlay)
            for check in (names.check, references.check, containers.check, kinds.check):
                assert all(str(problem) for problem in check(overlay))
            for fault in schema.faults(manifest, ("1.37",)):
                assert str(overlay.problem(overlay.manifests[0], fault.location, fault.message))


@pytest.mark.parametrize(
    "document", [None, [], "text", 7, {}, {"kind": []}, {"metadata": 1}, {"kind": "Pod", "spec": []}]
)
def test_verify_handles_any_rendered_document(document: Any, package: Path) -> None:
    with opened(package) as opened_package, _rendering(document):
        verify(opened_package, Checks())


def _kustomization(package: Path, change: Callable[[dict[str, Any]], object]) -> list[str]:
    path = package / SINGLE / "kustomization.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with opened(package) as opened_package, _rendering({}):
        return [str(problem) for problem in verify(opened_package, Checks()).problems]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("9" * 5000, "there is no 999"),
        ("a/" * 3000, "there is no a/a/"),
        ("a\0b", "there is no 'a\\x00b'"),
        ("\ud7ff\udfff", "kustomization.yaml:"),
        (".", "includes itself"),
        ("..", "has no kustomization.yaml"),
        ("", "expected a path"),
        (7, "expected a path"),
        (["a"], "expected a path"),
    ],
    ids=["too long", "too deep", "NUL", "surrogate", "itself", "folder", "empty", "number", "list"],
)
@pytest.mark.parametrize("key", ["resources", "components"])
def test_invalid_path_in_kustomization_is_a_finding(key: str, entry: Any, message: str, tmp_path: Path) -> None:
    """The fuzzer found a name that is too long for the system to look up."""
    package = build(tmp_path / "package")
    assert any(message in line for line in _kustomization(package, lambda content: content.update({key: [entry]})))


@pytest.mark.parametrize(
    "key", ["resources", "patches", "replacements", "configMapGenerator", "components", "labels", "crds", "nameSuffix"]
)
def test_kustomization_is_read_with_any_value_in_a_field(key: str, tmp_path: Path) -> None:
    package = build(tmp_path / "package")
    path = package / SINGLE / "kustomization.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    for odd in ODD:
        for value in (
            odd,
            [odd],
            [dict.fromkeys(("name", "path", "source", "targets", "envs", "files", "patch"), odd)],
        ):
            path.write_text(yaml.safe_dump({**content, key: value}), encoding="utf-8")
            with opened(package) as opened_package:
                sources = kustomization.read(opened_package, SINGLE)
            assert all(str(problem) for problem in sources.problems)

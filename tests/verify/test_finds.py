"""Inputs that once crashed `mlpack verify`, found by the fuzzer and by people: each must end in a finding."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.kubernetes.manifest import Manifest
from packager.package.opened import opened
from packager.rendering import kustomization
from packager.rendering.overlay import RenderedOverlay
from packager.verify import objects, runnable, schema, security
from tests.broken import build

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.thorough

SINGLE = "quickstart/k8s/mlops/single-node"

# Values in place of a text or a mapping.
ODD: tuple[Any, ...] = (None, True, 0, -1, 2**70, "", "x", [], {}, [[]], {"a": ["b"]}, [None], float("inf"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package whose kustomization the tests overwrite."""
    return build(tmp_path_factory.mktemp("package") / "hello-mpi")


def _every(value: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the location of each value of a manifest."""
    yield above
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield from _every(child, *above, step)


def test_checks_handle_any_value_in_any_field(hello_mpi: Path) -> None:
    """The fuzzer found names, volumes and capabilities that are lists or mappings, which cannot be hashed."""
    pod = yaml.safe_load((hello_mpi / SINGLE / "pod.yaml").read_text(encoding="utf-8"))
    with opened(hello_mpi) as opened_package:
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
            for check in (runnable.check, objects.check_kinds):
                assert all(str(problem) for problem in check(overlay))
            for fault in schema.faults(manifest, ("1.37",)):
                assert str(overlay.problem(overlay.manifests[0], fault.location, fault.message))


def test_kustomization_is_read_with_any_value_in_a_field(package: Path, hello_mpi: Path) -> None:
    content = yaml.safe_load((hello_mpi / SINGLE / "kustomization.yaml").read_text(encoding="utf-8"))
    for key in ("resources", "patches", "replacements", "configMapGenerator"):
        for odd in ODD:
            entry = dict.fromkeys(("name", "path", "source", "targets", "envs", "files", "patch"), odd)
            for value in (odd, [odd], [entry]):
                (package / SINGLE / "kustomization.yaml").write_text(yaml.safe_dump({**content, key: value}))
                with opened(package) as opened_package:
                    sources = kustomization.read(opened_package, SINGLE)
                assert all(str(problem) for problem in sources.problems)

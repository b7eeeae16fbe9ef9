"""Test that an exported template makes the objects of the package, with the values that are filled in."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from packager.base import yamlio
from packager.base.errors import UsageError
from packager.base.process import SYSTEM
from packager.base.values import convert, replace
from packager.service.registry import definitions
from packager.service.registry.bodies import DefinitionBody
from packager.service.registry.policy import Site
from packager.service.registry.rendering import Renderer
from packager.tasks import export as task_export

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def renderer() -> Iterator[Renderer]:
    renderer = Renderer()
    yield renderer
    renderer.close()


def objects(exported: tuple[dict[str, str], dict[str, str]], filled: dict[str, Any], renderer: Renderer) -> list[Any]:
    """Return the objects of a job that the service accepts."""
    template, body = exported
    definition, complaints = definitions.read(convert(body, DefinitionBody))
    assert definition, complaints
    assert renderer.check(template["template"]) == []
    request = definitions.example_request(definition)
    request = replace(request, filled={**request.filled, **filled})
    accepted = definitions.objects(definition, template["template"], request, renderer, Site())
    assert not accepted.complaints
    return list(accepted.objects)


@pytest.mark.parametrize("overlay", ["single-node", "multi-node"])
def test_service_accepts_the_exported_template(
    hello_mpi: Path, kubectl: Path, renderer: Renderer, overlay: str
) -> None:
    exported = task_export.export(hello_mpi, overlay, None, str(kubectl), SYSTEM)
    assert [part["name"] for part in exported] == ["hello-mpi"] * 2
    made = objects(exported, {"env": {"OUTPUT_DIR": "/elsewhere"}}, renderer)
    assert made[-1]["kind"] in ("Pod", "MPIJob")
    assert "/elsewhere" in yamlio.dump(made)
    assert all("hello-mpi" not in item["metadata"]["name"] for item in made)


def test_files_are_written_for_apply(hello_mpi: Path, kubectl: Path, tmp_path: Path) -> None:
    exported = task_export.export(hello_mpi, None, "mine", str(kubectl), SYSTEM)
    files = task_export.write(tmp_path / "new", *exported)
    read = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    assert [item["name"] for item in read] == ["mine", "mine"]
    assert read[1]["task_template_name"] == "mine"


def test_wrong_overlays_and_long_names_are_refused(hello_mpi: Path, kubectl: Path) -> None:
    with pytest.raises(UsageError):
        task_export.export(hello_mpi, "nowhere", None, str(kubectl), SYSTEM)
    with pytest.raises(UsageError, match="has more than 54 characters"):
        task_export.export(hello_mpi, None, "x" * 55, str(kubectl), SYSTEM)


def test_key_with_a_secret_name_becomes_a_secret_of_the_service(
    hello_mpi: Path, kubectl: Path, tmp_path: Path, renderer: Renderer
) -> None:
    package = shutil.copytree(hello_mpi, tmp_path / "hello-mpi")
    file = package / "quickstart/k8s/mlops/single-node/mlops.env"
    file.write_text(file.read_text(encoding="utf-8") + "\n# The token of the hub.\nHF_TOKEN=\n", encoding="utf-8")
    exported = task_export.export(package, "single-node", None, str(kubectl), SYSTEM)
    assert "HF_TOKEN: (Optional:secret) The token of the hub" in exported[1]["user_values_description"]
    made = yamlio.dump(objects(exported, {}, renderer))
    assert "-secrets" in made
    assert "env.HF_TOKEN" in made

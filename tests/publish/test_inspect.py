"""Tests of the bill of materials of a package."""

from __future__ import annotations

import hashlib
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from packager.publish import inspect
from packager.publish.artefact import ArtefactFacts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Mlpack
    from tests.publish.fake_registry import FakeRegistry


def test_bill_lists_every_file_and_image_with_its_digest(
    mlpack: Mlpack, registry: FakeRegistry, archive: Path, kubectl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL", str(kubectl))
    document = mlpack("inspect", archive, "-o", "cyclonedx").json
    listed = {part["name"]: part["hashes"][0]["content"] for part in document["components"] if part["type"] == "file"}
    with tarfile.open(archive) as tar:
        packed = {
            member.name.partition("/")[2]: hashlib.sha256(tar.extractfile(member).read()).hexdigest()  # type: ignore[union-attr]
            for member in tar
            if member.isfile()
        }
    inventory = packed.pop("manifest.json")
    assert listed == packed
    assert document["metadata"]["component"]["hashes"][0]["content"] == inventory
    images = [part for part in document["components"] if part["type"] == "container"]
    assert [(part["name"], part["version"]) for part in images] == [("docker.io/mpioperator/mpi-pi", "openmpi")]
    name = mlpack("push", archive, f"oci://{registry.host}/team/hello-mpi:1").stdout.strip()
    registry.requests.clear()
    assert mlpack("inspect", name, "-o", "cyclonedx").json == document
    assert not any("blobs" in path and document["serialNumber"] in path for _, path, _ in registry.requests)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("a/b", {"name": "a/b"}),
        ("localhost:5000/a:1", {"name": "localhost:5000/a", "version": "1"}),
        ("x.io/a@sha256:" + "0" * 64, {"name": "x.io/a", "version": "sha256:" + "0" * 64}),
    ],
)
def test_image_has_a_name_and_a_version(image: str, expected: dict[str, Any]) -> None:
    sealed = json.dumps({"manifest": 1, "package": "p", "files": {}, "editable": {}})
    facts = ArtefactFacts("p", "sha256:" + "1" * 64, (), ("edited.env",), (image,), sealed)
    document = inspect.bill_of_materials(facts)
    (part,) = document["components"]
    assert {key: part[key] for key in ("name", "version") if key in part} == expected
    assert document["metadata"]["component"]["properties"] == [{"name": "mlpack:edited", "value": "edited.env"}]
    assert document == inspect.bill_of_materials(facts)

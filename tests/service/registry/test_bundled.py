from __future__ import annotations

import json
from typing import Any

import pytest

from packager.service.registry import catalog
from packager.service.registry.policy import Site as Settings
from packager.service.registry.policy import accept
from packager.service.registry.rendering import Renderer
from packager.service.registry.template_values import Names, template_values

NAMES = Names("trial-000000", "trial", "", "ada")
IMAGE: dict[str, Any] = {"image": {"repository": "busybox", "tag": "1"}}


def objects(name: str, system: dict[str, Any]) -> str:
    """Return the objects of a bundled template, as JSON."""
    template = {body.name: body.template for body in catalog.templates()}[name]
    renderer = Renderer()
    try:
        rendered = renderer.render(template, template_values({}, {**IMAGE, **system}, NAMES))
    finally:
        renderer.close()
    assert rendered.problems == ()
    accepted = accept(rendered.objects, "trial-000000", "", Settings())
    assert accepted.complaints == ()
    return json.dumps(accepted.objects)


@pytest.mark.parametrize("name", ["non-distributed-task", "single-gpu-task"])
def test_bundled_template_names_no_storage_class_and_no_node(name: str) -> None:
    made = objects(name, {})
    assert "storageClassName" not in made
    assert "nodeSelector" not in made
    assert "affinity" not in made
    assert '"accessModes": ["ReadWriteOnce"]' in made


@pytest.mark.parametrize("name", ["non-distributed-task", "single-gpu-task"])
def test_bundled_template_takes_storage_and_nodes_from_system_values(name: str) -> None:
    storage = {"className": "efs", "accessMode": "ReadWriteMany"}
    made = objects(name, {"storage": storage, "nodes": {"label": "pool", "value": "gpu"}})
    assert '"storageClassName": "efs"' in made
    assert '"accessModes": ["ReadWriteMany"]' in made
    assert '"key": "pool", "operator": "In", "values": ["gpu"]' in made

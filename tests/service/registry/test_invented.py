from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.service.registry import bundled, invented
from packager.service.registry.policy import Site

if TYPE_CHECKING:
    from packager.service.registry.bodies import TemplateBody
    from packager.service.registry.rendering import Renderer

TEMPLATE = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ global.release }}"
spec:
  backoffLimit: {{ process.retries }}
  template:
    spec:
      restartPolicy: "{{ process.restart }}"
      containers:
        - name: main
          image: "{{ image.repository }}:{{ image.tag }}"
          args: ["{{ process.train.number | int + 1 }}"]
          resources:
            limits: {memory: "{{ (resources | default({})).memory or '1Gi' }}"}
"""


def found(template: str, renderer: Renderer) -> list[str]:
    return [item.detail for item in invented.complaints(template, renderer, Site("default"))]


def test_template_is_valid_where_some_values_make_valid_objects(renderer: Renderer) -> None:
    assert found(TEMPLATE, renderer) == []


@pytest.mark.parametrize("body", bundled.templates(), ids=lambda body: body.name)
def test_bundled_templates_are_valid_with_invented_values(body: TemplateBody, renderer: Renderer) -> None:
    assert found(body.template, renderer) == []


def test_misspelt_field_is_found_with_its_line_without_a_definition(renderer: Renderer) -> None:
    messages = found(TEMPLATE.replace("restartPolicy", "restartPolcy"), renderer)
    assert "line 9: Job trial-000000: spec.template.spec.restartPolcy: unknown field 'restartPolcy'" in messages


def test_object_that_no_template_may_create_is_found(renderer: Renderer) -> None:
    assert "Deployment" in " ".join(found(TEMPLATE.replace("kind: Job", "kind: Deployment"), renderer))


def test_template_that_needs_other_values_is_left_to_its_definitions(renderer: Renderer) -> None:
    assert found(TEMPLATE.replace("process.retries", "process.retries + none"), renderer) == []

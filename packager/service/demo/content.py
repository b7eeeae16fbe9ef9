"""The template, the definitions and the jobs of the demonstration server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.service.config import ProjectConfig
from packager.service.registry.bodies import DefinitionBody, TemplateBody

if TYPE_CHECKING:
    from packager.base.values import Json
    from packager.service.access.tokens import Caller
    from packager.service.server import Server

PROJECTS = {
    "research": ProjectConfig(namespace="demo-research", max_gpus=4, max_running=3),
    "vision": ProjectConfig(namespace="demo-vision", max_gpus=2),
}
"""The projects of the server."""

_TEMPLATE = """\
{# Trains a model in one container. The values are environment variables. #}
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{ global.release }}"
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: "{{ image.repository }}:{{ image.tag }}"
          env:
            - name: STEPS
              value: "{{ (process.train | default({})).steps or 60 }}"
            - name: LEARNING_RATE
              value: "{{ (process.train | default({})).learningRate or 0.01 }}"
          resources:
            limits:
              nvidia.com/gpu: {{ (resources | default({})).gpus or 1 }}
"""
_VALUES = """\
process:
  train:
    steps: (Optional:integer) How many steps to train, one in a second
    learningRate: (Optional:number) The learning rate; above 1, the loss grows and the job fails
resources:
  gpus: (Optional:integer) How many GPUs to use
"""
_EXAMPLE = """\
taskDef: {name}
process:
  train:
    steps: 60
    learningRate: 0.01
resources:
  gpus: 1
"""
_JOBS: tuple[tuple[str, str, int, float, int], ...] = (
    ("digits", "vision", 45, 0.05, 1),
    ("digits", "vision", 30, 3.0, 1),
    ("language-model", "research", 240, 0.01, 2),
    ("language-model", "research", 900, 0.02, 2),
    ("language-model", "research", 120, 0.01, 4),
)
"""Each job's definition, project, steps, learning rate and GPUs. The last one waits for GPUs."""


async def fill(server: Server, caller: Caller) -> None:
    """Register a template and definitions, and create jobs.

    Args:
        server: The server, which runs.
        caller: The admin who registers them.
    """
    await server.templates.add(
        caller, TemplateBody(name="demo-training", template=_TEMPLATE, description="Trains a model with GPUs.")
    )
    for name, text in {"digits": "Recognizes digits.", "language-model": "Trains a language model."}.items():
        body = DefinitionBody(
            name=name,
            task_template_name="demo-training",
            description=text,
            user_values_description=_VALUES,
            user_values_example=_EXAMPLE.format(name=name),
            system_values="image: {repository: registry.example.com/demo, tag: '1.0'}",
        )
        await server.definitions.add(caller, body)
    for name, project, steps, rate, gpus in _JOBS:
        train: dict[str, Json] = {"steps": steps, "learningRate": rate}
        filled: dict[str, Json] = {"taskDef": name, "process": {"train": train}, "resources": {"gpus": gpus}}
        await server.jobs.create(caller, {**filled, "project": project})

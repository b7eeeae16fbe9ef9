"""The content with which the forms of a new template and of a new definition begin: an example that works.

Tests: service/page/test_registry.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

TEMPLATE = {
    "name": "my-template",
    "description": "Runs a command in one container.",
    "template": """\
{# Values of users are in `process`, those of a definition in `image` and others. #}
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
          command: [sh, -c, 'echo "$MESSAGE"']
          env:
            - name: MESSAGE
              value: "{{ process.message or 'hello' }}"
          resources:
            requests:
              cpu: "{{ (resources | default({})).cpu or '100m' }}"
              memory: "{{ (resources | default({})).memory or '128Mi' }}"
""",
}
"""The inputs of a new template."""

_BASE = "countdown-task"

_DEFINITION = {
    "name": "my-task",
    "task_template_name": _BASE,
    "description": "Counts down to zero.",
    "user_values_description": "process:\n  train:\n    number: (Required:integer) Where to start\n",
    "user_values_example": "taskDef: my-task\nprocess:\n  train:\n    number: 5\n",
    "system_values": "image:\n  repository: docker.io/library/busybox\n  tag: '1'\n",
}


def definition(templates: Collection[str]) -> dict[str, str]:
    """Return the inputs of a new definition; without the template of the example, they are empty.

    Args:
        templates: The names of the server's templates.
    """
    return {"append_uuid": "", **(_DEFINITION if _BASE in templates else {})}

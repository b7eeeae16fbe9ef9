"""The program that checks task definitions: a child process with limits, whose only data are its requests.

It answers each line of JSON on its input with one on its output. It is confined as the process that renders templates
(`packager.service.registry.sandbox`), and renders templates itself.

Only `packager.service.registry.checker` runs this program, as `python -I -m packager.service.registry.check_process`.
"""

from __future__ import annotations

import json
import os
import resource
import traceback
from functools import partial

from packager.base.values import Fields, as_plain, convert
from packager.kubernetes.podsecurity import Level
from packager.service.complaints import Complaint, listed
from packager.service.registry import bundled, definitions, sandbox
from packager.service.registry.bodies import NamedDefinition
from packager.service.registry.policy import Site
from packager.service.registry.rendering import Renderer

_TOO_MUCH_MEMORY = "the check takes more than 512 MiB of memory"


class _Site(Fields, frozen=True):
    """The settings of the administrator; see `Site`."""

    server: str
    level: Level
    storage_classes: dict[str, str]
    node_selectors: dict[str, dict[str, str]]
    project: str | None
    allowed: frozenset[str]


class _Request(Fields, frozen=True):
    """A request to check a definition.

    Attributes:
        body: The definition.
        template: The text of its template; None to check only what does not depend on a template.
        settings: The settings of the administrator.
    """

    body: NamedDefinition
    template: str | None
    settings: _Site


def answer(line: bytes, renderer: Renderer) -> bytes:
    """Return the answer to a request."""
    try:
        return json.dumps(_outcome(convert(json.loads(line), _Request), renderer)).encode()
    except MemoryError:
        return json.dumps({"refusals": [as_plain(Complaint("", _TOO_MUCH_MEMORY))]}).encode()
    except Exception:  # noqa: BLE001 - the server raises it
        return json.dumps({"bug": traceback.format_exc()}).encode()


def _outcome(request: _Request, renderer: Renderer) -> dict[str, object]:
    definition, complaints = definitions.read(request.body)
    if definition is None or request.template is None:
        return {"complaints": as_plain(listed(complaints))}
    own = request.settings
    site = Site(own.server, own.level, own.storage_classes, own.node_selectors, own.project, own.allowed)
    accepted, complaints = definitions.trial(definition, request.template, renderer, site)
    return {"objects": accepted.objects, "remarks": accepted.remarks, "refusals": as_plain(listed(complaints))}


def _rendered(line: bytes) -> bytes:
    """Answer a request to render a template; its limit of processor time ends with it."""
    try:
        return sandbox.answer(line, [])
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


_BODY = {
    "name": "countdown",
    "task_template_name": "countdown-task",
    "user_values_description": "process:\n  train:\n    number: (Required:integer) A\nnote: (Optional) B\n",
    "system_values": "image:\n  repository: example.com/a\n  tag: '1'\n",
}
_EXAMPLES = (
    "taskDef: countdown\nprocess: {train: {number: 1}}\nnote: b\n",
    "taskDef: countdown\nprocess: {train: {numbre: 1}}\n",
    "process: [",
)
"""A definition over a bundled template, and examples of which only the first one has no faults."""


def _warm_up(renderer: Renderer) -> None:
    """Make all modules be imported and all files be read that checks need: no file can be opened later."""
    sandbox.warm_up()
    template = next(item.template for item in bundled.templates() if item.name == _BODY["task_template_name"])
    for text in (template, template.replace("backoffLimit", "backofLimit")):
        for example in _EXAMPLES:
            body = {**_BODY, "user_values_example": example}
            answer(json.dumps({"body": body, "template": text, "settings": as_plain(Site())}).encode(), renderer)


def serve() -> None:
    """Answer each line of the input, confined and within the limits, until the input ends."""
    renderer = Renderer(ask=_rendered)
    _warm_up(renderer)
    os.nice(sandbox.NICENESS)  # jobs and lists do not wait for checks
    sandbox.confine_renderer()
    sandbox.serve(partial(answer, renderer=renderer))


if __name__ == "__main__":
    serve()

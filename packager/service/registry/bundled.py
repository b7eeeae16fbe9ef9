"""The templates that every server has initially. Tests: service/registry/test_definitions.py."""

from __future__ import annotations

from pathlib import Path

from packager.service.registry.bodies import TemplateBody

_FOLDER = Path(__file__).resolve().parent / "templates"

_DESCRIPTIONS = {
    "countdown-task": "Counts down from process.train.number: to try a server with.",
    "non-distributed-task": "One container on one node, with its configs as JSON and a claim for what it writes.",
    "single-gpu-task": "One container with one GPU, with its configs as JSON and a claim for what it writes.",
}


def templates() -> list[TemplateBody]:
    """Return the bundled templates, by name."""
    return [
        TemplateBody(name=name, template=(_FOLDER / f"{name}.yaml").read_text(encoding="utf-8"), description=text)
        for name, text in _DESCRIPTIONS.items()
    ]

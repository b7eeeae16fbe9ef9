"""Tests of the use case `packager.app.models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.models import InvalidModel, Model, model, models

if TYPE_CHECKING:
    from pathlib import Path


def test_models_returns_valid_and_invalid_models(specs: Path) -> None:
    valid, invalid = models([specs])
    assert isinstance(valid, Model)
    assert valid.summary_as_json() == {
        "name": "demo",
        "version": None,
        "aliases": ["trial"],
        "title": "Demo",
        "group": None,
        "path": str(specs / "demo/spec.yaml"),
        "variants": [
            {
                "precision": "fp32",
                "mode": "training",
                "package": "demo-fp32-training",
                "overlays": ["single-node", "multi-node"],
            }
        ],
    }
    assert isinstance(invalid, InvalidModel)
    assert invalid.summary_as_json() == {"path": str(specs / "wrong/spec.yaml"), "error": invalid.error.as_json()}


def test_model_is_found_by_its_alias(specs: Path) -> None:
    demo = model("trial", [specs])
    assert (demo.path, demo.as_json()["spec"]["name"]) == (specs / "demo/spec.yaml", "demo")

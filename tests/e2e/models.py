"""Edited copies of the bundled models, for tests on the cluster."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site

STEP_ENDS = {
    "llm-finetune": ("train.py", "            self.optimizer.step()\n"),
    "resnet50": ("loop.py", "        replica.apply(gradients, learning_rate(settings, ranks.size, step))\n"),
    "resnet50-pytorch": ("train.py", "            self.optimizer.step()\n"),
}
"""The file and the line of each model after which a step has been taken."""


Edit = tuple[str, str, str]
"""A file of a model, a line of it, and the lines that are added after it."""


def changed(site: Site, model: str, *edits: Edit) -> Path:
    """Return a copy of a bundled model with edited files."""
    folder = site.folder / "models" / model
    shutil.copytree(CHECKOUT / "model_specs" / model, folder)
    for file, before, more in edits:
        program = folder / file
        text = program.read_text(encoding="utf-8")
        assert text.count(before) == 1
        program.write_text(text.replace(before, before + more), encoding="utf-8")
    return folder


def pause(model: str) -> Edit:
    """Return the edit that pauses a model after each step: time for a drain, without work for the CPUs."""
    file, end = STEP_ENDS[model]
    margin = end[: len(end) - len(end.lstrip())]
    return file, end, f"{margin}time.sleep(1)\n"


def paced(site: Site, model: str) -> Path:
    """Return a copy of a bundled model that pauses after each step."""
    return changed(site, model, pause(model))

"""shellcheck accepts every shell script among the templates of packages and new models."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from packager.builder.render import TEMPLATES

if TYPE_CHECKING:
    from pathlib import Path

SCRIPTS = sorted(path for folder in TEMPLATES.values() for path in folder.rglob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_template_script_passes_shellcheck(script: Path) -> None:
    text = script.read_text()
    assert text.startswith("#!/bin/sh\n")
    assert "{{" not in text, "a script takes its values as arguments or from its environment, never from a template"
    done = subprocess.run(["shellcheck", "--severity=style", script], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_templates_contain_the_expected_scripts() -> None:
    assert {"identity.sh", "mpi-launcher.sh", "mpi-worker.sh", "train.sh"} <= {script.name for script in SCRIPTS}

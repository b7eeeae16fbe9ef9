"""Every shell script that a package, or a new model, brings is one that shellcheck has nothing against."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from packager.render import TEMPLATES

SCRIPTS = sorted(
    path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*") if path.is_file() and path.suffix == ".sh"
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_of_the_templates(name: str) -> None:
    text = (TEMPLATES / name).read_text()
    assert text.startswith("#!/bin/sh\n")
    assert "{{" not in text, "a script takes its values as arguments or from its environment, never from a template"
    done = subprocess.run(
        ["shellcheck", "--severity=style", TEMPLATES / name], capture_output=True, text=True, check=False
    )
    assert done.stdout + done.stderr == ""


def test_there_are_scripts() -> None:
    assert {"identity.sh", "mpi-launcher.sh", "mpi-worker.sh", "train.sh"} <= {Path(name).name for name in SCRIPTS}

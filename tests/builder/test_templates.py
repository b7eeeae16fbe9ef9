"""shellcheck accepts every shell script among the templates of packages and new models."""

from __future__ import annotations

import subprocess

from packager.builder.render import TEMPLATES

SCRIPTS = sorted(path for folder in TEMPLATES.values() for path in folder.rglob("*.sh"))


def test_template_scripts_pass_shellcheck() -> None:
    for script in SCRIPTS:
        text = script.read_text()
        assert text.startswith("#!/bin/sh\n")
        assert "{{" not in text, "a script takes its values as arguments or from its environment, never from a template"
    done = subprocess.run(["shellcheck", "--severity=style", *SCRIPTS], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


def test_templates_contain_the_expected_scripts() -> None:
    assert {"identity.sh", "mpi-launcher.sh", "mpi-worker.sh", "train.sh"} <= {script.name for script in SCRIPTS}

"""Test the example of the documentation: the service accepts it, and its program reads the configs of a job."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import yaml

from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.api.conftest import Service

FOLDER = demo.CHECKOUT / "docs/service/example"


def test_program_of_the_example_runs_with_the_environment_of_its_job(service: Service, tmp_path: Path) -> None:
    template, definition, values = (
        yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        for name in ("template", "definition", "values")
    )
    for kind, body in (("templates", template), ("definitions", definition)):
        answer = service.post(f"/v1/{kind}", body)
        assert answer.status_code == 201, answer.text
        assert not [text for text in answer.json()["warnings"] if "refused" in text]
    answer = service.post("/v1/jobs?dry_run=true", values)
    assert answer.status_code == 200, answer.text
    items = {item["kind"]: item for item in answer.json()["manifests"]}
    (container,) = items["Job"]["spec"]["template"]["spec"]["containers"]
    data = items["ConfigMap"]["data"]
    environment = {
        entry["name"]: data[entry["valueFrom"]["configMapKeyRef"]["key"]] if "valueFrom" in entry else str(tmp_path)
        for entry in container["env"]
    }
    done = subprocess.run(
        [sys.executable, FOLDER / "train.py"], env=environment, capture_output=True, text=True, check=True
    )
    first, *curve = done.stdout.splitlines()
    assert "200 steps for admin, data from ['s3://data/points']" in first
    assert json.loads(curve[-1])["loss"] < 0.01
    assert abs(json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))["slope"] - 3) < 0.2

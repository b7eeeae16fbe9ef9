"""Tests of the use case `packager.app.diff`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.diff import diff

if TYPE_CHECKING:
    from pathlib import Path

ENV = "quickstart/k8s/mlops/single-node/mlops.env"


def test_json_contains_edits_with_masked_secrets(package: Path) -> None:
    env = package / ENV
    env.write_text(env.read_text().replace("=docker.io", "=example.com") + "HF_TOKEN=sesame\n")
    content = diff(package).as_json()
    edits = content.pop("edits")
    assert edits == [
        {"file": ENV, "kind": "value", "key": "REGISTRY", "before": "docker.io", "after": "example.com"},
        {"file": ENV, "kind": "value", "key": "HF_TOKEN", "before": None, "after": "***"},
    ]
    assert content.pop("digest").startswith("sha256:")
    assert content == {"package": "hello-mpi", "other_changes": "", "not_in_patch": {}}

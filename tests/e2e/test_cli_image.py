"""The image of `mlpack`, with the restricted level of Pod Security, and the cluster and namespace of its pod."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Images, Site


@pytest.mark.thorough
def test_image_builds_verifies_and_looks_for_a_package_as_any_user(site: Site, images: Images, tmp_path: Path) -> None:
    script = "mlpack build hello-mpi && mlpack verify hello-mpi.tar.gz && mlpack status -o json"
    site.run(f"kubectl create rolebinding view --clusterrole=view --serviceaccount={site.namespace}:default")
    container = {
        "name": "mlpack",
        "image": images.build_ours("cli", tmp_path / "image"),
        "command": ["sh", "-c", script],
        "workingDir": "/tmp",
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 12345,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    site.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cli"}, "spec": spec})
    assert site.end_of_pod("cli") == "Succeeded"
    log = site.log("cli")
    assert log.splitlines()[0] == "hello-mpi.tar.gz"
    assert json.JSONDecoder().raw_decode(log, log.index("{"))[0]["deployments"] == []

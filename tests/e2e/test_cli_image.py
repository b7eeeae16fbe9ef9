"""The image of `mlpack`, built from its Dockerfile, as any user and with the restricted level of Pod Security."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import CHECKOUT, Site

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.site import Images

IMAGE = "localhost/mlpack:test"


@pytest.mark.thorough
def test_image_builds_and_verifies_a_package_as_any_user(
    new_site: Callable[[str], Site], images: Images, tmp_path: Path
) -> None:
    folder = tmp_path / "image"
    shutil.copytree(CHECKOUT / "deploy/cli", folder)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, CHECKOUT]
    subprocess.run(wheel, check=True)
    shutil.copy(Site.kubectl(), folder / "kubectl")
    site = new_site("restricted")
    container = {
        "name": "mlpack",
        "image": images.build(folder, IMAGE),
        "command": ["sh", "-c", "mlpack build hello-mpi && mlpack verify hello-mpi.tar.gz && mlpack version"],
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
    assert site.log("cli").splitlines()[0] == "hello-mpi.tar.gz"

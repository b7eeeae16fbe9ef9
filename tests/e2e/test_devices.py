"""Tests of devices on a real scheduler: the node advertises GPUs that it does not have."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.site import Site

pytestmark = [
    pytest.mark.usefixtures("mpi_image"),
    pytest.mark.alone,
    pytest.mark.skipif("MLPACK_E2E_CONTEXT" in os.environ, reason="its nodes are not ours to change"),
]

GPU = "example.com~1gpu"


@pytest.fixture
def gpus(site: Site) -> Iterator[int]:
    """Advertise eight devices on the node; the kubelet counts them as it does those of a device plugin."""
    change = json.dumps([{"op": "add", "path": f"/status/capacity/{GPU}", "value": "8"}])
    site.run(f"kubectl patch node node --subresource=status --type=json --patch='{change}'")
    allocatable = "kubectl get node node -o jsonpath='{.status.allocatable.example\\.com/gpu}'"
    site.until(lambda: site.run(allocatable) == "8", "eight allocatable devices")
    yield 8
    change = json.dumps([{"op": "remove", "path": f"/status/capacity/{GPU}"}])
    site.run(f"kubectl patch node node --subresource=status --type=json --patch='{change}'")


def test_scheduler_counts_the_devices_of_the_option_gpu(site: Site, gpus: int) -> None:
    package = site.build("hello-mpi", "--with gpu --site GPU_VENDOR=example.com")
    site.run(f"mlpack configure {package} --set GPU_COUNT={gpus + 1}")
    deploy = site.shell(f"mlpack deploy {package} --overlay single-node --timeout 20s")
    assert deploy.returncode != 0
    assert "no node can run it: the only node has too little example.com/gpu left" in deploy.stderr
    site.run(f"mlpack delete {package} --overlay single-node --yes")

    site.run(f"mlpack configure {package} --set GPU_COUNT={gpus}")
    deploy = site.shell(f"mlpack deploy {package} --overlay single-node")
    assert deploy.returncode == 0, deploy.stderr
    limits = "jsonpath='{.spec.containers[0].resources.limits.example\\.com/gpu}'"
    assert site.run(f"kubectl get pod {package.name}-single-node -o {limits}") == "8"

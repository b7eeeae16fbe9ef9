"""Tests of hello-mpi, the half-minute check of a cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import commands, last_json
from tests.released import RELEASES

if TYPE_CHECKING:
    from tests.e2e.site import Site


@pytest.mark.alone  # half a minute is measured on an otherwise idle machine
def test_every_rank_prints_its_host_and_user_within_half_a_minute(site: Site, mpi_image: str) -> None:
    assert mpi_image == "docker.io/mpioperator/mpi-pi:openmpi"
    package = site.build("hello-mpi")
    apply, logs, wait, delete = commands(package, "multi-node")
    begin = time.monotonic()
    site.run(apply, cwd=package)
    site.run(wait, cwd=package)
    assert time.monotonic() - begin < 30
    log = site.run(logs, cwd=package)
    for rank in (0, 1):
        assert f"rank {rank} of 2: host hello-mpi-multi-node-worker-{rank}, uid 1000, gid 1000" in log
    site.run(delete, cwd=package)
    site.until(lambda: not site.left(), "everything to be gone")


def test_pod_runs_with_the_commands_of_the_readme(site: Site, mpi_image: str) -> None:
    assert mpi_image
    package = site.build("hello-mpi")
    apply, logs, wait, delete = commands(package, "single-node")
    site.run(apply, cwd=package)
    site.run(wait, cwd=package)
    assert last_json(site.run(logs, cwd=package))["ranks"] == 1
    site.run(delete, cwd=package)
    site.until(lambda: not site.left(), "everything to be gone")


def test_package_of_the_earliest_version_is_deployed(site: Site, mpi_image: str) -> None:
    assert mpi_image
    package = min(RELEASES.glob("*/hello-mpi.tar.gz"))
    site.run(f"mlpack deploy {package} --yes --timeout 10m")
    assert last_json(site.run(f"mlpack logs {package}"))["ranks"] == 2

"""Tests that the number of workers in mlops.env is the number that runs on a real cluster, in each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = pytest.mark.usefixtures("mpi_image")


def configured(site: Site, model: str, overlay: str, *settings: str) -> Faulty:
    """Build a package, and set the number of workers to 4."""
    package = Faulty(site, site.build(model, " ".join(f"--set {setting}" for setting in settings)), overlay)
    done = package.run("configure", "--workers", "4")
    assert done.code == 0, done.err
    site.run(f"mlpack verify {package.folder}")
    return package


def test_four_workers_of_an_mpijob_run_a_rank_each(site: Site) -> None:
    package = configured(site, "hello-mpi", "multi-node")
    deploy = package.run("deploy")
    assert deploy.code == 0, deploy.err
    log = package.run("logs").out
    for rank in range(4):
        assert f"rank {rank} of 4: host hello-mpi-multi-node-worker-{rank}, " in log
    package.delete()


@pytest.mark.thorough
def test_four_nodes_of_a_jobset_find_each_other(site: Site) -> None:
    package = configured(site, f"{CHECKOUT}/tests/e2e/specs/peers", "nodes")
    deploy = package.run("deploy")
    assert deploy.code == 0, deploy.err
    lines = package.run("logs").out.splitlines()
    assert lines[0] == "node 0 of 4 on peers-nodes-node-0-0 as 1000"
    heard = {line for line in lines if line.startswith("heard ")}
    assert heard == {f"heard node {index} of 4 on peers-nodes-node-0-{index} as 1000" for index in (1, 2, 3)}
    package.delete()


@pytest.mark.thorough
def test_four_pods_of_a_job_run_at_the_same_time(site: Site) -> None:
    """Each waits until it is told to end, so all four are seen."""
    together = ("environment.WAITS=yes", "overlays.sweep.completions=2", "overlays.sweep.parallelism=2")
    package = configured(site, f"{CHECKOUT}/tests/e2e/specs/sweep", "sweep", *together)
    assert package.run("deploy", "--no-wait").code == 0
    listing = "kubectl get pods --selector=job-name=sweep-search-sweep --field-selector=status.phase=Running -o name"
    site.until(lambda: len(site.run(listing).split()) == 4, "four pods to run")
    for pod in site.run(listing).split():
        site.let_end(pod, "$OUTPUT_DIR/enough")
    site.run("kubectl wait --for=condition=Complete --timeout=60s job/sweep-search-sweep")
    package.delete()

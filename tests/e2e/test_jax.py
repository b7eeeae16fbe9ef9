"""Tests that the language model in JAX trains on two nodes, and resumes after a drain with the same loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = [pytest.mark.trains, pytest.mark.thorough]

NAME = "jax-gpt-cpu"
SMALL = (
    "--set environment.STEPS.value=50",
    "--set environment.SEQUENCE_LENGTH.value=32",
    "--set variants.0.resources.requests.cpu=50m",
)
SAME = 0.01
"""By how much the loss of a resumed training may differ."""


@pytest.fixture(scope="module", autouse=True)
def jax(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/jax-gpt", "localhost/jax:0.12.0")


def package_of(site: Site, overlay: str, *options: str) -> Faulty:
    """Build the model's package for uid 12345, and return one of its overlays."""
    folder = site.build("jax-gpt", "--force", *SMALL, *options)
    site.run(f"mlpack configure {folder} --uid 12345 --gid 12346")
    return Faulty(site, folder, overlay)


def test_drained_language_model_resumes_with_the_same_loss(site: Site, claim: str) -> None:
    """A pod of two is evicted in the middle; one node takes batches of the same size without interruption."""
    reference = package_of(site, "single-node", "--set environment.BATCH_SIZE.value=4")
    deploy = reference.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    uninterrupted = last_json(reference.run("logs").out)
    assert (uninterrupted["processes"], uninterrupted["steps"], uninterrupted["resumed_from"]) == (1, 50, 0)
    assert uninterrupted["loss_fell_by"] > 1
    assert reference.run("delete").code == 0

    package = package_of(site, "multi-node", "--set environment.BATCH_SIZE.value=2", claim)
    with package.running("deploy") as deployed:
        package.until_logged('"step": 5,')
        pod = site.run("kubectl get pods -l batch.kubernetes.io/job-completion-index=1 -o name")
        evict(site, pod.split("/")[1].strip())
        _, stderr = deployed.communicate(timeout=660)
    assert deployed.returncode == 0, stderr
    assert "all pods were started again once after a drain" in stderr
    log = package.run("logs").out
    resumed = last_json(log)
    assert f"process 0 of 2 on {NAME}-multi-node-node-0-0: uid 12345, gid 12346" in log
    assert (resumed["processes"], resumed["steps"]) == (2, 50)
    assert 5 <= resumed["resumed_from"] < 50
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=SAME)

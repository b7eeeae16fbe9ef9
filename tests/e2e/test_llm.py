"""Tests that the language model trains on one and two nodes, and resumes on another number of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.models import paced
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_jobset import pod_of
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from tests.e2e.site import Site

pytestmark = [pytest.mark.trains, pytest.mark.thorough]

SMALL = (
    "--set environment.STEPS.value=6",
    "--set environment.BATCH_SIZE.value=2",
    "--set environment.SEQUENCE_LENGTH.value=64",
    "--set environment.CHECKPOINT_EVERY.value=2",
    "--set variants.0.resources.requests.cpu=50m",  # other tests need room on the node at the same time
)
MANY = ("--set environment.STEPS.value=20", "--set environment.LOG_EVERY.value=1")


@pytest.fixture(scope="module", autouse=True)
def pytorch(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/llm-finetune", "localhost/pytorch:2.14.1")


def overlay(site: Site, name: str, *options: str, model: str = "llm-finetune") -> Faulty:
    """Build the model's package for uid 12345, and return one of its overlays."""
    folder = site.build(model, "--force", *SMALL, *options)
    site.run(f"mlpack configure {folder} --overlay {name} --uid 12345 --gid 12346")
    return Faulty(site, folder, name)


def result(package: Faulty) -> dict[str, Any]:
    """Deploy a package, and return the summary that its program prints at the end."""
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    summary = last_json(package.run("logs").out)
    assert (summary["uid"], summary["gid"]) == (12345, 12346)
    return summary


def test_language_model_resumes_on_another_number_of_nodes_with_the_same_loss(site: Site, claim: str) -> None:
    """One of two nodes is drained, then both are deleted, and one node takes the remaining steps of the same size."""
    single = ("--set environment.GRADIENT_ACCUMULATION.value=2", *MANY)
    checkpoints = claim.replace("output-pvc", "checkpoint-pvc").replace("OUTPUT", "CHECKPOINT")
    shared = (checkpoints, "--set environment.CHECKPOINT_DIR=/checkpoints")
    package = overlay(site, "single-node", *single)
    uninterrupted = result(package)
    assert (uninterrupted["ranks"], uninterrupted["resumed_from"]) == (1, 0)
    assert uninterrupted["loss"] < uninterrupted["loss_before"] - 0.5
    assert package.run("delete").code == 0
    interrupted = overlay(site, "multi-node", *shared, *MANY, model=str(paced(site, "llm-finetune")))
    assert interrupted.run("deploy", "--no-wait").code == 0
    interrupted.until_logged('"step": 2,')
    evict(site, pod_of(site, 1).removeprefix("pod/"))
    interrupted.until_logged("resuming after step")
    assert "all pods were started again once after a drain" in interrupted.run("status").out
    assert interrupted.run("delete").code == 0
    resumed = result(overlay(site, "single-node", *shared, *single))
    assert resumed["ranks"] == 1
    assert 2 <= resumed["resumed_from"] < resumed["steps"] == 20
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=0.05)

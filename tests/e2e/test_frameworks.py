"""Tests that the models of the frameworks train on one and several nodes, as a user that is not in the image."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.models import changed, paced, pause
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.test_jobset import pod_of
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.e2e.models import Edit
    from tests.e2e.site import Site

pytestmark = [pytest.mark.trains, pytest.mark.thorough]

SMALL = (
    "--set environment.STEPS.value=4",
    "--set environment.BATCH_SIZE.value=2",
    "--set environment.IMAGE_SIZE.value=32",
    # Other tests need room on the node at the same time.
    "--set overlays.multi-node.resources.requests.cpu=50m",
    "--set overlays.single-node.resources.requests.cpu=50m",
)
TENSORFLOW = (
    "--set environment.STEPS=20",
    "--set environment.BATCH_SIZE=2",
    "--set environment.IMAGE_SIZE=32",
    "--set overlays.single-node.resources.requests.cpu=50m",
    "--set overlays.single-node.resources.requests.memory=512Mi",
)
TINY = (
    "--set environment.BATCHES.value=5",
    "--set environment.BATCH_SIZE.value=4",
    "--set overlays.multi-node.resources.requests.cpu=50m",
    "--set overlays.multi-node.resources.requests.memory=256Mi",
)
THREE = (
    "--set overlays.multi-node.roles.server.replicas=2",
    "--set overlays.multi-node.roles.worker.replicas=3",
)

SAME = 0.01
"""By how much the loss of a resumed training may differ."""


@pytest.fixture(scope="module")
def pytorch(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/resnet50-pytorch", "localhost/pytorch:2.14.1")


@pytest.fixture(scope="module")
def mxnet(images: Images) -> str:
    return images.build(CHECKOUT / "model_specs/cifar10-mxnet", "localhost/mxnet:1.9.1")


def raising_in(step: int) -> Edit:
    """Return the edit of ResNet-50 for PyTorch that makes rank 1 raise an error in a step, except in a resumed run."""
    fault = f"            if (ranks.rank, self.step, uncounted) == (1, {step}, 0):\n"
    fault += '                raise ValueError(f"no image 7 at {time.time():.1f}")\n'
    return "train.py", "            self.step += 1\n", fault


def several(site: Site, model: str | Path, *options: str) -> Faulty:
    """Build a model's package for uid 12345, and return its overlay `multi-node`."""
    package = site.build(str(model), *options)
    site.run(f"mlpack configure {package} --overlay multi-node --uid 12345 --gid 12346")
    return Faulty(site, package, "multi-node")


def trained(site: Site, overlay: str, model: str, *options: str) -> dict[str, Any]:
    """Build a model's package, deploy an overlay, and return the last JSON line of the main pod's log."""
    package = site.build(model, *options)
    where = f"{package} --overlay {overlay}"
    site.run(f"mlpack configure {where} --uid 12345 --gid 12346")
    site.run(f"mlpack deploy {where} --timeout 10m", timeout=660)
    result = last_json(site.run(f"mlpack logs {where}"))
    site.run(f"mlpack delete {where} -y")
    assert (result["uid"], result["gid"], result["data"]) == (12345, 12346, "synthetic")
    return result


@pytest.mark.usefixtures("pytorch")
def test_pytorch_resumes_with_the_same_loss_after_an_error_and_after_a_drain(site: Site, claim: str) -> None:
    """One of two nodes fails, later one is drained; two ranks of one node take the same steps without interruption."""
    steps = ("--force", *SMALL, "--set environment.STEPS.value=20")
    uninterrupted = trained(site, "single-node", "resnet50-pytorch", *steps)
    assert (uninterrupted["ranks"], len(uninterrupted["hosts"]), uninterrupted["steps"]) == (2, 1, 20)
    options = ("--set environment.CHECKPOINT_EVERY.value=2", "--set overlays.multi-node.retries=1")
    model = changed(site, "resnet50-pytorch", raising_in(step=3), pause("resnet50-pytorch"))
    package = several(site, model, *steps, *options, claim)
    with package.running("deploy") as deployed:
        package.until_logged("found a checkpoint of 2 steps")
        package.until_logged("step 5/20")
        evict(site, pod_of(site, 1).removeprefix("pod/"))
        _, stderr = deployed.communicate(timeout=660)
    assert deployed.returncode == 0, stderr
    assert ": attempt 1 of 2" in stderr
    assert "all pods were started again once after a drain" in stderr
    resumed = last_json(package.run("logs").out)
    hosts = [f"resnet50v1-5-pytorch-fp32-training-multi-node-node-0-{index}" for index in (0, 1)]
    assert (resumed["ranks"], resumed["hosts"], resumed["uid"]) == (2, hosts, 12345)
    assert 5 <= resumed["resumed_from"] < resumed["steps"] == 20
    assert resumed["weights_digest"].startswith("sha256:")
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=SAME)
    assert package.run("delete").code == 0


@pytest.mark.usefixtures("tensorflow_image")
def test_drained_mpijob_goes_on_from_the_checkpoint_of_its_ranks(site: Site, claim: str) -> None:
    """A worker is evicted, and then the launcher."""
    retries, steps = "--set overlays.multi-node.retries=2", "--set environment.STEPS=30"
    options = (*(option.replace("single", "multi") for option in TENSORFLOW), steps, retries, claim)
    package = several(site, paced(site, "resnet50"), *options)
    with package.running("deploy") as deployed:
        for role, step in (("worker-1", 5), ("launcher", 15)):
            package.until_logged(f"step {step}/30")
            pods = site.run("kubectl get pods --field-selector=status.phase=Running -o name").split()
            [launcher] = [pod.removeprefix("pod/") for pod in pods if "-launcher-" in pod]
            evict(site, launcher if role == "launcher" else launcher.rpartition("launcher")[0] + role)
        _, stderr = deployed.communicate(timeout=660)
    assert deployed.returncode == 0, stderr
    resumed = last_json(package.run("logs").out)
    assert 15 <= resumed["resumed_from"] < resumed["steps"] == 30


@pytest.mark.usefixtures("mxnet")
def test_mxnet_trains_with_two_parameter_servers(site: Site) -> None:
    package = several(site, "cifar10-mxnet", *TINY, *THREE)
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    name = "cifar10-mxnet-training-multi-node"
    pods = f"--selector=jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=worker"
    lines = site.run(f"kubectl logs {pods} --tail=-1").splitlines()
    results = [json.loads(line) for line in lines if line.startswith("{")]
    assert sorted((result["rank"], result["workers"]) for result in results) == [(0, 3), (1, 3), (2, 3)]
    assert {result["host"] for result in results} == {f"{name}-worker-0-{index}" for index in range(3)}
    assert {result["uid"] for result in results} == {12345}
    assert len({result["weights_digest"] for result in results}) == 1
    package.delete()

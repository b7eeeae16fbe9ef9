"""Tests that the models of the frameworks train on one and several nodes, as a user that is not in the image."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.models import changed, paced, pause
from tests.e2e.site import CHECKOUT, Images, last_json
from tests.e2e.storage import NodeFolder
from tests.e2e.test_jobset import pod_of
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

    from tests.e2e.models import Edit
    from tests.e2e.site import Site

pytestmark = pytest.mark.trains

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


@pytest.fixture
def claims(site: Site, new_site: Callable[[str], Site], mpi_image: str) -> Iterator[str]:
    """Create claims on a folder of the node, and yield the options of `build` that use them."""
    assert mpi_image
    folder = NodeFolder(new_site("privileged"), "/tmp")
    folder.run(f"mkdir -p {folder.path}/results {folder.path}/dataset\nchmod 777 {folder.path}/results")
    names = ("results", "dataset")
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    for name in names:
        volume = {"hostPath": {"path": f"{folder.path}/{name}"}, "capacity": {"storage": "1Gi"}}
        asked = {"volumeName": f"{name}-{site.namespace}", "resources": {"requests": {"storage": "1Gi"}}}
        site.apply(
            _object("PersistentVolume", f"{name}-{site.namespace}", {**common, **volume}),
            _object("PersistentVolumeClaim", name, {**common, **asked}),
        )
    yield "--with pvc --site OUTPUT_CLAIM=results --site DATASET_CLAIM=dataset"
    site.run("kubectl delete pv --wait=false " + " ".join(f"{name}-{site.namespace}" for name in names))
    folder.run(f"rm -r {folder.path}")


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


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


def apply_again(site: Site, package: Faulty) -> None:
    """Apply a package's multi-node overlay under another name, by the nameSuffix of an overlay around it."""
    overlay = site.folder / "own"
    overlay.mkdir()
    theirs = f"../{package.folder.name}/quickstart/k8s/mlops/multi-node"
    (overlay / "kustomization.yaml").write_text(json.dumps({"nameSuffix": "-two", "resources": [theirs]}))
    site.run("kubectl apply -k own")


def seconds_since(stderr: str, words: str) -> float:
    """Return the seconds since a program printed `words`, from the time that it printed after them."""
    said = re.search(rf"{words} at ([0-9.]+)", stderr)
    assert said, stderr
    return time.time() - float(said[1])


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
@pytest.mark.thorough
def test_pytorch_in_bf16_ends_with_equal_weights_on_both_ranks_of_a_node(site: Site) -> None:
    result = trained(site, "single-node", "resnet50-pytorch", "--precision bf16", *SMALL)
    assert (result["ranks"], len(result["hosts"]), result["steps"]) == (2, 1, 4)
    assert result["weights_digest"].startswith("sha256:")  # the run fails if ranks have different digests


@pytest.mark.usefixtures("pytorch")
def test_pytorch_resumes_with_the_same_loss_after_an_error_and_after_a_drain(site: Site, claims: str) -> None:
    """One of two nodes fails, later one is drained; two ranks of one node take the same steps without interruption."""
    steps = ("--force", *SMALL, "--set environment.STEPS.value=20")
    uninterrupted = trained(site, "single-node", "resnet50-pytorch", *steps)
    assert (uninterrupted["ranks"], len(uninterrupted["hosts"]), uninterrupted["steps"]) == (2, 1, 20)
    options = ("--set environment.CHECKPOINT_EVERY.value=2", "--set overlays.multi-node.retries=1")
    model = changed(site, "resnet50-pytorch", raising_in(step=3), pause("resnet50-pytorch"))
    package = several(site, model, *steps, *options, claims)
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
def test_drained_tensorflow_resumes_with_the_same_loss(site: Site, claims: str) -> None:
    """The pod is evicted in the middle, makes a checkpoint, and is deployed again."""
    steps = ("--force", *TENSORFLOW)
    uninterrupted = trained(site, "single-node", "resnet50", *steps)
    package = Faulty(site, site.build(str(paced(site, "resnet50")), *steps, claims), "single-node")
    site.run(f"mlpack configure {package.folder} --overlay single-node --uid 12345 --gid 12346")
    assert package.run("deploy", "--no-wait").code == 0
    package.until_logged("step 5/20")
    evict(site, package.workload.removeprefix("pod/"))
    site.run(f"kubectl wait --for=delete --timeout=60s {package.workload}")
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    resumed = last_json(package.run("logs").out)
    assert 5 <= resumed["resumed_from"] < resumed["steps"] == 20
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=SAME)


@pytest.mark.usefixtures("tensorflow_image")
def test_drained_mpijob_goes_on_from_the_checkpoint_of_its_ranks(site: Site, claims: str) -> None:
    """A worker is evicted, and then the launcher."""
    retries, steps = "--set overlays.multi-node.retries=2", "--set environment.STEPS=30"
    options = (*(option.replace("single", "multi") for option in TENSORFLOW), steps, retries, claims)
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


@pytest.mark.alone
@pytest.mark.usefixtures("pytorch")
def test_deploy_names_the_pytorch_node_that_raised_the_error(site: Site) -> None:
    package = several(site, changed(site, "resnet50-pytorch", raising_in(step=2)), *SMALL)
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert seconds_since(deploy.err, "ValueError: no image 7") <= 15
    assert deploy.code == 7
    shown = "jobset/resnet50v1-5-pytorch-fp32-training-multi-node"
    # When one node has ended, JobSet stops the other one, whose torchrun is about to end.
    how = r"(container node ended with exit code 1|it was stopped after ValueError: no image 7 at [0-9.]+)"
    assert re.search(f"^error: {shown} has failed: node 1: {how}\n", deploy.err, re.MULTILINE), deploy.err
    # Its pod is deleted as well, on a busy machine before its log can be read.
    unread = " was stopped; its log is empty, or was deleted before it could be read"
    end = rf"node 0(: container node ended with exit code 1| was stopped; its last lines:|{unread})\n"
    assert re.search(end, deploy.err), deploy.err
    first, how, other = re.split(end, deploy.err, maxsplit=1)
    lines = (
        '  | [rank1]:     raise ValueError(f"no image 7 at {time.time():.1f}")\n  | [rank1]: ValueError: no image 7 at '
    )
    assert lines in first
    assert "Connection closed by peer" not in first
    assert how == unread or "Connection closed by peer" in other
    package.delete()


@pytest.mark.alone
@pytest.mark.usefixtures("pytorch")
def test_pytorch_does_not_wait_for_a_node_that_was_deleted(site: Site) -> None:
    package = several(
        site, "resnet50-pytorch", *SMALL[1:], "--set environment.STEPS.value=5000 --add environment.LOG_EVERY=1"
    )
    with package.running("deploy") as deploy:
        package.until_logged("step 2/")
        begin = time.monotonic()
        site.run("kubectl delete --wait=false pod --selector=batch.kubernetes.io/job-completion-index=1")
        _, stderr = deploy.communicate(timeout=120)
    assert time.monotonic() - begin <= 30, stderr
    assert deploy.returncode == 7
    shown = "jobset/resnet50v1-5-pytorch-fp32-training-multi-node"
    assert f"error: {shown} has failed: node 1: it was deleted, which stopped it\n" in stderr
    package.delete()


@pytest.mark.usefixtures("mxnet")
@pytest.mark.thorough
def test_mxnet_trains_on_one_node(site: Site) -> None:
    result = trained(site, "single-node", "cifar10-mxnet", *TINY)
    assert (result["workers"], result["epochs"]) == (1, 1)


@pytest.mark.usefixtures("mxnet")
def test_mxnet_trains_with_two_parameter_servers_twice_side_by_side(site: Site) -> None:
    """The second JobSet has another name, by the nameSuffix of an overlay around the package's."""
    package = several(site, "cifar10-mxnet", *TINY, *THREE)
    apply_again(site, package)
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    site.run("kubectl wait --for=condition=Completed --timeout=600s jobset/cifar10-mxnet-training-multi-node-two")
    for name in ("cifar10-mxnet-training-multi-node", "cifar10-mxnet-training-multi-node-two"):
        pods = f"--selector=jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=worker"
        lines = site.run(f"kubectl logs {pods} --tail=-1").splitlines()
        results = [json.loads(line) for line in lines if line.startswith("{")]
        assert sorted((result["rank"], result["workers"]) for result in results) == [(0, 3), (1, 3), (2, 3)]
        assert {result["host"] for result in results} == {f"{name}-worker-0-{index}" for index in range(3)}
        assert {result["uid"] for result in results} == {12345}
        assert len({result["weights_digest"] for result in results}) == 1
    site.run("kubectl delete -k own")
    package.delete()


@pytest.mark.usefixtures("mxnet")
def test_drained_mxnet_resumes_with_the_same_loss(site: Site, claims: str) -> None:
    """A worker is evicted in the middle of the second epoch; the same job runs beside it without interruption."""
    values = ("BATCHES=20", "EPOCHS=2", "LEARNING_RATE=0.002", "LOG_EVERY=5")
    steps = ("--force", *TINY, *(f"--set environment.{value}" for value in values))
    apply_again(site, several(site, "cifar10-mxnet", *steps))
    package = several(site, paced(site, "cifar10-mxnet"), *steps, claims)
    name = "cifar10-mxnet-training-multi-node"
    worker = f"jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=worker"
    worker += ",batch.kubernetes.io/job-completion-index=1"
    with package.running("deploy") as deployed:
        package.until_logged("Epoch[1] Batch [5]", worker)
        evict(site, site.run(f"kubectl get pods --selector={worker} --output=name").strip().removeprefix("pod/"))
        _, stderr = deployed.communicate(timeout=660)
    assert deployed.returncode == 0, stderr
    assert "all pods were started again once after a drain" in stderr
    resumed = last_json(package.run("logs").out)
    assert 25 <= resumed["resumed_from"] < resumed["steps"] == 40
    site.run(f"kubectl wait --for=condition=Completed --timeout=600s jobset/{name}-two")
    uninterrupted = last_json(site.run(f"kubectl logs job/{name}-two-worker-0 --tail=-1"))
    assert uninterrupted["resumed_from"] == 0
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=SAME)


@pytest.mark.alone
@pytest.mark.usefixtures("mxnet")
def test_mxnet_does_not_wait_for_a_worker_that_has_failed(site: Site) -> None:
    fault = '            if (os.environ.get("DMLC_WORKER_ID"), number) == ("1", 2):\n'
    fault += '                say(f"no records at {time.time():.1f}")\n                sys.exit(3)\n'
    each = "        for number, (images, labels) in enumerate(batches, start=start + 1):\n"
    model = changed(site, "cifar10-mxnet", ("training.py", each, fault))
    package = several(site, model, *TINY, "--set environment.BATCHES.value=5000")
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert seconds_since(deploy.err, "no records") <= 15
    assert deploy.code == 7
    shown = "jobset/cifar10-mxnet-training-multi-node"
    assert f"error: {shown} has failed: worker 1: container worker ended with exit code 3\n" in deploy.err
    first, _, other = deploy.err.partition("worker 0 was stopped; its last lines:\n")
    assert "  | no records at " in first
    assert "  | training 1 epochs of 5000 batches with 4 images each, on synthetic data\n" in other
    package.delete()

"""Tests that the bundled models train, resume after a drain, and serve, as a user that is in no image."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.faults import Faulty
from tests.e2e.site import CHECKOUT, last_json
from tests.e2e.test_jobset import pod_of
from tests.e2e.test_server import forwarded
from tests.e2e.test_truth_verdicts import evict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.site import Images, Site

pytestmark = [pytest.mark.trains, pytest.mark.thorough]

Edit = tuple[str, str, str]
"""A file of a model, a line of it, and the lines that are added after it."""


IMAGES = {
    "cifar10-mxnet": "localhost/mxnet:1.9.1",
    "jax-gpt": "localhost/jax:0.12.0",
    "llm-finetune": "localhost/pytorch:2.14.1",
    "resnet50": "localhost/tensorflow-mpi:2.21.0",
    "resnet50-pytorch": "localhost/pytorch:2.14.1",
    "xgboost-tabular": "localhost/xgboost:3.4.1",
}
STEP_ENDS = {
    "llm-finetune": ("train.py", "            self.optimizer.step()\n"),
    "resnet50": ("loop.py", "        replica.apply(gradients, learning_rate(settings, ranks.size, step))\n"),
    "resnet50-pytorch": ("train.py", "            self.optimizer.step()\n"),
}
"""The file and the line of each model after which a step has been taken."""

VARIANT_CPU = "--set variants.0.resources.requests.cpu=50m"
"""Other tests need room on the node at the same time."""

FAILS_IN_STEP_3 = """\
            if (ranks.rank, self.step, uncounted) == (1, 3, 0):
                raise ValueError("no image 7")
"""
PATIENTS = (
    (
        "17.99 10.38 122.8 1001 0.1184 0.2776 0.3001 0.1471 0.2419 0.07871 1.095 0.9053 8.589 153.4 0.006399 0.04904 "
        "0.05373 0.01587 0.03003 0.006193 25.38 17.33 184.6 2019 0.1622 0.6656 0.7119 0.2654 0.4601 0.1189"
    ),
    (
        "13.08 15.71 85.63 520 0.1075 0.127 0.04568 0.0311 0.1967 0.06811 0.1852 0.7477 1.383 14.67 0.004097 0.01898 "
        "0.01698 0.00649 0.01678 0.002425 14.5 20.49 96.09 630.5 0.1312 0.2776 0.189 0.07283 0.3184 0.08183"
    ),
)
"""A malignant and a benign case of the table."""


@pytest.fixture
def build(site: Site, images: Images) -> Callable[..., Faulty]:
    """Return a function that builds a model's image and its package for uid 12345, and returns one of its overlays."""

    def built(model: str, overlay: str, *options: str, edits: tuple[Edit, ...] = ()) -> Faulty:
        images.build(CHECKOUT / "model_specs" / model, IMAGES[model])
        source = str(edited(site, model, edits)) if edits else model
        folder = site.build(source, "--force", *options)
        site.run(f"mlpack configure {folder} --uid 12345 --gid 12346")
        return Faulty(site, folder, overlay)

    return built


def edited(site: Site, model: str, edits: tuple[Edit, ...]) -> Path:
    """Return a copy of a bundled model with edited files."""
    folder = site.folder / "models" / model
    shutil.copytree(CHECKOUT / "model_specs" / model, folder)
    for file, before, more in edits:
        program = folder / file
        text = program.read_text(encoding="utf-8")
        assert text.count(before) == 1
        program.write_text(text.replace(before, before + more), encoding="utf-8")
    return folder


def pause(model: str) -> Edit:
    """Return the edit that pauses a model after each step: time for a drain, without work for the CPUs."""
    file, end = STEP_ENDS[model]
    margin = end[: len(end) - len(end.lstrip())]
    return file, end, f"{margin}time.sleep(1)\n"


def result(package: Faulty) -> dict[str, Any]:
    """Deploy a package, and return the summary that its program prints at the end."""
    deploy = package.run("deploy", "--timeout", "10m", timeout=660)
    assert deploy.code == 0, deploy.err
    summary = last_json(package.run("logs").out)
    assert (summary["uid"], summary["gid"]) == (12345, 12346)
    return summary


def test_pytorch_resumes_with_the_same_loss_after_an_error_and_after_a_drain(
    site: Site, build: Callable[..., Faulty], claim: str
) -> None:
    """One of two nodes fails, later one is drained; two ranks of one node take the same steps without interruption."""
    steps = (
        "--set environment.STEPS.value=20",
        "--set environment.BATCH_SIZE.value=2",
        "--set environment.IMAGE_SIZE.value=32",
        "--set overlays.multi-node.resources.requests.cpu=50m",
        "--set overlays.single-node.resources.requests.cpu=50m",
    )
    reference = build("resnet50-pytorch", "single-node", *steps)
    uninterrupted = result(reference)
    assert (uninterrupted["ranks"], len(uninterrupted["hosts"]), uninterrupted["steps"]) == (2, 1, 20)
    assert reference.run("delete").code == 0
    options = ("--set environment.CHECKPOINT_EVERY.value=2", "--set overlays.multi-node.retries=1", claim)
    edits = (("train.py", "            self.step += 1\n", FAILS_IN_STEP_3), pause("resnet50-pytorch"))
    package = build("resnet50-pytorch", "multi-node", *steps, *options, edits=edits)
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
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=0.01)
    assert package.run("delete").code == 0


def test_drained_mpijob_goes_on_from_the_checkpoint_of_its_ranks(
    site: Site, build: Callable[..., Faulty], claim: str
) -> None:
    """A worker is evicted, and then the launcher."""
    options = (
        "--set environment.STEPS=30",
        "--set environment.BATCH_SIZE=2",
        "--set environment.IMAGE_SIZE=32",
        "--set overlays.multi-node.resources.requests.cpu=50m",
        "--set overlays.multi-node.resources.requests.memory=512Mi",
        "--set overlays.multi-node.retries=2",
    )
    package = build("resnet50", "multi-node", *options, claim, edits=(pause("resnet50"),))
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


def test_mxnet_trains_with_two_parameter_servers(site: Site, build: Callable[..., Faulty]) -> None:
    options = (
        "--set environment.BATCHES.value=5",
        "--set environment.BATCH_SIZE.value=4",
        "--set overlays.multi-node.resources.requests.cpu=50m",
        "--set overlays.multi-node.resources.requests.memory=256Mi",
        "--set overlays.multi-node.roles.server.replicas=2",
        "--set overlays.multi-node.roles.worker.replicas=3",
    )
    package = build("cifar10-mxnet", "multi-node", *options)
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


def test_language_model_resumes_on_another_number_of_nodes_with_the_same_loss(
    site: Site, build: Callable[..., Faulty], claim: str
) -> None:
    """One of two nodes is drained, then both are deleted, and one node takes the remaining steps of the same size."""
    small = (
        "--set environment.STEPS.value=20",
        "--set environment.BATCH_SIZE.value=2",
        "--set environment.SEQUENCE_LENGTH.value=64",
        "--set environment.CHECKPOINT_EVERY.value=2",
        "--set environment.LOG_EVERY.value=1",
        VARIANT_CPU,
    )
    single = (*small, "--set environment.GRADIENT_ACCUMULATION.value=2")
    checkpoints = claim.replace("output-pvc", "checkpoint-pvc").replace("OUTPUT", "CHECKPOINT")
    shared = (checkpoints, "--set environment.CHECKPOINT_DIR=/checkpoints")
    package = build("llm-finetune", "single-node", *single)
    uninterrupted = result(package)
    assert (uninterrupted["ranks"], uninterrupted["resumed_from"]) == (1, 0)
    assert uninterrupted["loss"] < uninterrupted["loss_before"] - 0.5
    assert package.run("delete").code == 0
    interrupted = build("llm-finetune", "multi-node", *shared, *small, edits=(pause("llm-finetune"),))
    assert interrupted.run("deploy", "--no-wait").code == 0
    interrupted.until_logged('"step": 2,')
    evict(site, pod_of(site, 1).removeprefix("pod/"))
    interrupted.until_logged("resuming after step")
    assert "all pods were started again once after a drain" in interrupted.run("status").out
    assert interrupted.run("delete").code == 0
    resumed = result(build("llm-finetune", "single-node", *shared, *single))
    assert resumed["ranks"] == 1
    assert 2 <= resumed["resumed_from"] < resumed["steps"] == 20
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=0.05)


def test_drained_language_model_in_jax_resumes_with_the_same_loss(
    site: Site, build: Callable[..., Faulty], claim: str
) -> None:
    """A pod of two is evicted in the middle; one node takes batches of the same size without interruption."""
    small = ("--set environment.STEPS.value=50", "--set environment.SEQUENCE_LENGTH.value=32", VARIANT_CPU)
    reference = build("jax-gpt", "single-node", *small, "--set environment.BATCH_SIZE.value=4")
    uninterrupted = result(reference)
    assert (uninterrupted["processes"], uninterrupted["steps"], uninterrupted["resumed_from"]) == (1, 50, 0)
    assert uninterrupted["loss_fell_by"] > 1
    assert reference.run("delete").code == 0

    package = build("jax-gpt", "multi-node", *small, "--set environment.BATCH_SIZE.value=2", claim)
    with package.running("deploy") as deployed:
        package.until_logged('"step": 5,')
        evict(site, pod_of(site, 1).removeprefix("pod/"))
        _, stderr = deployed.communicate(timeout=660)
    assert deployed.returncode == 0, stderr
    assert "all pods were started again once after a drain" in stderr
    log = package.run("logs").out
    resumed = last_json(log)
    assert "process 0 of 2 on jax-gpt-cpu-multi-node-node-0-0: uid 12345, gid 12346" in log
    assert (resumed["processes"], resumed["steps"]) == (2, 50)
    assert 5 <= resumed["resumed_from"] < 50
    assert resumed["loss"] == pytest.approx(uninterrupted["loss"], abs=0.01)


def test_run_trains_xgboost_on_three_nodes_and_serves_the_model(
    site: Site, build: Callable[..., Faulty], claim: str
) -> None:
    package = build("xgboost-tabular", "multi-node", VARIANT_CPU, "--set environment.THREADS.value=1", claim)
    name, model = package.folder.name, "/v1/models/xgboost-tabular"
    run = site.shell(f"mlpack run {package.folder} --timeout 10m", timeout=660)
    assert run.returncode == 0, run.stderr
    log = package.run("logs").out
    summary = last_json(log)
    assert (summary["uid"], summary["gid"], summary["workers"]) == (12345, 12346, 3)
    assert (summary["rounds"], summary["resumed_from"]) == (100, 0)
    assert summary["held_out_logloss"] < 0.2
    assert summary["held_out_error"] < 0.1
    assert f"worker 0 of 3 on {name}-multi-node-worker-0-0: uid 12345" in log
    curl = "curl -sS --fail-with-body --max-time 60"
    with forwarded(site, f"service/{name}-serving") as address:
        features = json.loads(site.run(f"{curl} {address}{model}"))["features"]
        patients = [dict(zip(features, map(float, values.split()), strict=True)) for values in PATIENTS]
        (site.folder / "patients.json").write_text(json.dumps({"instances": patients}))
        predictions = json.loads(site.run(f"{curl} {address}{model}:predict -d @patients.json"))["predictions"]
        assert [prediction["class"] for prediction in predictions] == ["malignant", "benign"]
        assert "xgboost_rows_total 2\n" in site.run(f"{curl} {address}/metrics")


def test_torchrun_goes_on_without_a_node_and_with_its_replacement(site: Site, images: Images) -> None:
    """A quota keeps the replacement away until the other node has gone on alone."""
    images.build(CHECKOUT / "model_specs/llm-finetune", IMAGES["llm-finetune"])
    spec = CHECKOUT / "tests/e2e/specs/elastic"
    options = ("--with elastic --site ELASTIC_MIN=1", "--set 'environment.WORLDS.value=2 1 2'")
    package = Faulty(site, site.build(str(spec), *options), "nodes")

    def last() -> dict[str, Any]:
        """Return the last line of JSON that node 0 has printed; nothing before the first."""
        log = package.run("logs").out
        return last_json(log) if re.search("^{", log, re.MULTILINE) else {}

    with package.running("deploy", "--timeout", "8m") as deploy:
        site.until(lambda: last().get("worlds", [0])[-1] == 2, "both nodes to work", 600)
        site.run("kubectl create quota one --hard=pods=1")
        evict(site, pod_of(site, 1).removeprefix("pod/"))
        site.until(lambda: last()["worlds"][-1] == 1, "node 0 to go on alone", 600)
        assert last()["from"] > 0
        site.run("kubectl delete resourcequota one")
        _, err = deploy.communicate(timeout=660)
        assert deploy.returncode == 0, err
    assert "jobset/elastic-nodes has succeeded\n" in err
    assert last()["worlds"][-3:] == [2, 1, 2]
    assert last()["step"] > 0
    package.delete()

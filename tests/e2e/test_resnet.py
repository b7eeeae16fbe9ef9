"""Tests of ResNet-50 v1.5: the unedited package and every variant, on several nodes and on one."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import commands, last_json, thorough
from tests.e2e.storage import claim
from tests.e2e.test_mpi import become

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.site import Site

SMALL = "--set environment.IMAGE_SIZE=64"
"""The options of tests that need no images of full size."""

pytestmark = [pytest.mark.trains, pytest.mark.usefixtures("tensorflow_image")]


@pytest.mark.alone  # the training uses all CPUs
def test_both_unedited_overlays_train_at_the_same_time(site: Site) -> None:
    package = site.build("resnet50", "--precision fp32")
    multi, single = (commands(package, overlay) for overlay in ("multi-node", "single-node"))
    for command in (multi[0], single[0]):
        applied = site.shell(command, cwd=package)
        assert (applied.returncode, applied.stderr) == (0, ""), applied.stderr

    pod = "resnet50v1-5-fp32-training-single-node"
    assert site.end_of("resnet50v1-5-fp32-training-multi-node") == "Succeeded", site.log(site.launcher())
    assert site.end_of_pod(pod) == "Succeeded", site.log(pod)

    log = site.run(multi[1], cwd=package)
    assert log == site.log(site.run("kubectl get pods -oname|grep launch|cut -c5-").strip())
    hosts = set(re.findall(r"^rank \d of 2\b.*?\b(resnet50\S+worker-\d)", log, flags=re.MULTILINE))
    assert len(hosts) == 2, log
    result = last_json(log)
    assert result["ranks"] == 2
    assert len(result["hosts"]) == 2
    assert (result["data"], result["steps"]) == ("synthetic", 10)
    assert re.search(r"synthetic", log, flags=re.IGNORECASE)
    assert result["weights_digest"], result  # the run fails if ranks have different digests
    assert result["checkpoint"], result

    site.run(multi[3], cwd=package)
    site.until(lambda: all("multi-node" not in name for name in site.left()), "the MPIJob to be gone")
    assert site.phase(pod) == "Succeeded"  # the other overlay's pod is kept
    assert site.run("kubectl get pods -oname|grep training|cut -c5-").strip() == pod
    assert last_json(site.run(single[1], cwd=package))["ranks"] == 1
    site.run(single[3], cwd=package)
    site.until(lambda: not site.left(), "everything to be gone")


@pytest.mark.parametrize(
    ("precision", "mode", "overlay"),
    [
        thorough("bf16", "training", "multi-node"),
        ("bf16", "training", "single-node"),
        ("fp32", "inference", "single-node"),
    ],
)
def test_every_other_variant_of_resnet_runs(site: Site, precision: str, mode: str, overlay: str) -> None:
    package = site.build("resnet50", SMALL, f"--precision {precision}", f"--mode {mode}", "--set environment.STEPS=3")
    site.run(commands(package, overlay)[0], cwd=package)
    name = f"{package.name}-{overlay}"
    if overlay == "multi-node":
        assert site.end_of(name) == "Succeeded", site.log(site.launcher())
        result = last_json(site.log(site.launcher()))
    else:
        assert site.end_of_pod(name) == "Succeeded", site.log(name)
        result = last_json(site.log(name))
    assert (result["precision"], result["mode"]) == (precision, mode)


ASK = """
import json, socket, urllib.request
server = f"http://{socket.gethostbyname(socket.gethostname())}:8501/v1/models/resnet50"
[version] = json.load(urllib.request.urlopen(server))["model_version_status"]
body = json.dumps({"instances": [[[[0.5, 0.5, 0.5]] * 64] * 64]}).encode()
[prediction] = json.load(urllib.request.urlopen(server + ":predict", body))["predictions"]
print(json.dumps({**version, "classes": len(prediction), "sum": sum(prediction)}))
"""


@pytest.mark.alone  # so does this one
def test_trained_weights_are_served_from_the_claim(site: Site, volumes: str) -> None:
    """Random weights are served, with a warning, while no checkpoint exists; then those that a training has written.

    The training does not end: its checkpoint is written while it runs.
    """
    for name in ("results", "dataset"):
        claim(site, name, volumes)
    endless = "--set environment.STEPS=100000 --set environment.CHECKPOINT_EVERY=2 --with pvc"
    training = site.build("resnet50", SMALL, endless, "--site OUTPUT_CLAIM=results --site DATASET_CLAIM=dataset")
    serving = site.build("resnet50", SMALL, "--mode serving --set overlays.serving.replicas=1")
    for package in (training, serving):
        become(package, 12345, 12346, 12347)
    site.run(f"mlpack deploy {training} --overlay single-node --no-wait -y")
    assert serve(site, serving) == (0, "RANDOM: there is no checkpoint in DATASET_DIR or OUTPUT_DIR")
    assert "*** WEIGHTS ARE RANDOM" in site.run(f"mlpack logs {serving}")

    pod = f"{training.name}-single-node"

    def files() -> str:
        return site.shell(f"kubectl exec {pod} -- sh -c 'stat -c %u:%g:%n \"$OUTPUT_DIR\"/*'").stdout

    listing = site.until(lambda: "checkpoint.npz" in (text := files()) and text, "a checkpoint", 600)
    assert re.search("^12345:1234[67]:.*/checkpoint.npz$", listing, flags=re.MULTILINE), listing
    site.run(f"mlpack delete {training} --overlay single-node -y")
    site.run(f"mlpack configure {serving} --storage pvc --set OUTPUT_CLAIM=dataset --set DATASET_CLAIM=results")
    site.run(f"mlpack configure {serving} --set REQUIRE_WEIGHTS=1")
    steps, weights = serve(site, serving)
    assert (steps > 0, weights) == (True, f"/weights/checkpoint.npz, {steps} steps")
    assert f"weights: {weights}\n" in site.run(f"mlpack logs {serving}")


def serve(site: Site, package: Path) -> tuple[int, str]:
    """Deploy a serving package, send a request, and return the number of training steps and the source of weights."""
    served = site.shell(f"mlpack deploy {package}")
    assert served.returncode == 0, served.stderr
    answer = last_json(site.in_pod(str(package), f"python3 -c {shlex.quote(ASK)}"))
    assert (answer["state"], answer["classes"]) == ("AVAILABLE", 1000)
    assert answer["sum"] == pytest.approx(1, abs=1e-3)
    return int(answer["version"]), answer["weights"]

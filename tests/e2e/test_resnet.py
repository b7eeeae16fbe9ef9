"""Tests of ResNet-50 v1.5: the unedited package and every variant, on several nodes and on one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.e2e.site import commands, last_json

if TYPE_CHECKING:
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


@pytest.mark.thorough
@pytest.mark.parametrize(("precision", "mode"), [("bf16", "training"), ("fp32", "inference")])
def test_every_other_variant_of_resnet_runs(site: Site, precision: str, mode: str) -> None:
    package = site.build("resnet50", SMALL, f"--precision {precision}", f"--mode {mode}", "--set environment.STEPS=3")
    site.run(commands(package, "single-node")[0], cwd=package)
    name = f"{package.name}-single-node"
    assert site.end_of_pod(name) == "Succeeded", site.log(name)
    result = last_json(site.log(name))
    assert (result["precision"], result["mode"]) == (precision, mode)

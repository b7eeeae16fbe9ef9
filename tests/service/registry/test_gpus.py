"""How many GPUs a job takes, and which of its devices cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from packager.service.registry.gpus import Gpus, count_gpus


def job(limits: dict[str, Any], parallelism: int = 1, **pod: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x:1", "resources": {"limits": limits}}]
    spec = {
        "parallelism": parallelism,
        "completions": parallelism,
        "template": {"spec": {"containers": containers, **pod}},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": spec}


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-1g.10gb.me",
        "nvidia.com/mig-3g.20gb.shared",
        "amd.com/gpu",
        "gpu.intel.com/i915",
        "gpu.intel.com/xe",
        "habana.ai/gaudi",
        "google.com/tpu",
        "aws.amazon.com/neuroncore",
        "huawei.com/Ascend910",
    ],
)
def test_gpus_and_parts_of_gpus_of_every_vendor_are_counted(resource: str) -> None:
    assert count_gpus([job({resource: "28", "cpu": 4}, 2)]) == Gpus(56, ())


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "rdma/hca_shared", "vpc.amazonaws.com/efa"]
)
def test_processors_memory_and_network_cards_are_no_gpus(resource: str) -> None:
    assert count_gpus([job({resource: "4"})]) == Gpus(0, ())


@pytest.mark.parametrize(
    "resource",
    [
        "example.com/gpu",
        "nvidia.com/GPU",
        "nvidia.com/gpumem",
        "nvidia.com/pgpu",
        "volcano.sh/vgpu-number",
        "deviceclass.resource.kubernetes.io/gpu",
        "smarter-devices/nvidia0",
        "gpu.intel.com/tiles",
    ],
)
def test_a_device_that_is_not_known_cannot_be_counted(resource: str) -> None:
    assert count_gpus([job({resource: "1"})]) == Gpus(0, (resource,))
    assert count_gpus([job({resource: "1"})], [resource]) == Gpus(0, ())


def test_a_claim_of_devices_cannot_be_counted() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "eight"}, {"name": "more", "resourceClaimName": "x"}]
    assert count_gpus([job({}, resourceClaims=claims)]).uncounted == (
        "the resource claim gpu",
        "the resource claim more",
    )


def test_a_request_without_a_limit_counts_too() -> None:
    item = job({})
    item["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"amd.com/gpu": "3"}}
    assert count_gpus([item]).count == 3


def test_more_gpus_than_the_database_can_hold_are_as_many_as_it_can() -> None:
    assert count_gpus([job({"nvidia.com/gpu": "9E"}, 9)]).count == 2**31 - 1

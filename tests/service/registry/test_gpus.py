"""The number of GPUs that a job uses, and its devices that cannot be counted."""

from __future__ import annotations

from typing import Any

import pytest

from packager.service.registry.policy import Gpus, count_gpus


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
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "gpu.intel.com/i915"],
)
def test_gpus_and_parts_of_gpus_of_every_vendor_are_counted(resource: str) -> None:
    assert count_gpus([job({resource: "28", "cpu": 4}, 2)]) == Gpus(56, ())


@pytest.mark.parametrize("resource", ["cpu", "vpc.amazonaws.com/efa"])
def test_processors_memory_and_network_cards_are_not_counted(resource: str) -> None:
    assert count_gpus([job({resource: "4"})]) == Gpus(0, ())


@pytest.mark.parametrize(
    "resource",
    ["example.com/gpu", "nvidia.com/pgpu"],
)
def test_unlisted_device_is_uncounted_unless_it_is_excluded(resource: str) -> None:
    assert count_gpus([job({resource: "1"})]) == Gpus(0, (resource,))
    assert count_gpus([job({resource: "1"})], [resource]) == Gpus(0, ())


def test_resource_claim_is_uncounted() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "eight"}, {"name": "more", "resourceClaimName": "x"}]
    assert count_gpus([job({}, resourceClaims=claims)]).uncounted == (
        "the resource claim gpu",
        "the resource claim more",
    )


def test_request_without_a_limit_is_counted() -> None:
    item = job({})
    item["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"amd.com/gpu": "3"}}
    assert count_gpus([item]).count == 3


def test_init_containers_run_before_the_others_and_beside_the_sidecars_before_them() -> None:
    def asking(count: str, **more: Any) -> dict[str, Any]:
        return {"name": f"n{count}", "resources": {"limits": {"nvidia.com/gpu": count}}, **more}

    first = [asking("1", restartPolicy="Always"), asking("6")]
    assert count_gpus([job({"nvidia.com/gpu": "4"}, initContainers=first)]).count == 7
    assert count_gpus([job({"nvidia.com/gpu": "8"}, initContainers=first)]).count == 9


def test_gpus_with_a_faulty_quantity_are_uncounted() -> None:
    assert count_gpus([job({"nvidia.com/gpu": "4x", "memory": "4Gb"})]) == Gpus(0, ("nvidia.com/gpu",))


def test_gpu_count_is_capped_at_the_maximum_of_the_database() -> None:
    assert count_gpus([job({"nvidia.com/gpu": "9E"}, 9)]).count == 2**31 - 1

"""Tests of the option gang: the objects of each scheduler, and the number of pods that they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.package.layout import OVERLAYS
from packager.workloads import structures
from tests import kinds, kubectls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Mlpack

SET = [f"--set={argument}" for argument in kinds.SET if argument.startswith("overlays.servers.")]

# The fields of `spec` in the CRDs of volcano.sh/volcano v1.15.1 (config/crd/volcano/bases) and of
# sigs.k8s.io/scheduler-plugins v0.34.7 (config/crd/bases).
CRDS: dict[str, dict[str, type]] = {
    "scheduling.volcano.sh/v1beta1": {
        "minMember": int,
        "minResources": dict,
        "minTaskMember": dict,
        "networkTopology": dict,
        "priorityClassName": str,
        "queue": str,
        "subGroupPolicy": list,
    },
    "scheduling.x-k8s.io/v1alpha1": {"minMember": int, "minResources": dict, "scheduleTimeoutSeconds": int},
}


@pytest.fixture
def build(mlpack: Mlpack, tmp_path: Path) -> Any:
    """A function that builds hello-mpi, with a JobSet, for a gang scheduler, and returns its folder."""

    def run(gang: str, *arguments: str) -> Path:
        done = mlpack(
            "build", "hello-mpi", "--format", "dir", *SET, "--with", "gang", "--site", f"GANG={gang}", *arguments
        )
        assert done.code == 0, done.stderr
        return tmp_path / "hello-mpi"

    return run


def objects(package: Path, overlay: str) -> tuple[Manifest, list[Manifest]]:
    """Return the workload of an overlay and its PodGroups."""
    program = str(kubectls.kubectl())
    documents, _ = yamlio.load_all(kustomize(package / OVERLAYS / overlay, program=program).manifests.encode(), "")
    manifests = [Manifest(document.data) for document in documents]
    [workload] = filter(structures.is_workload, manifests)
    return workload, [manifest for manifest in manifests if manifest.kind == "PodGroup"]


def members(workload: Manifest) -> Iterator[tuple[str, bool, dict[str, Any], Any]]:
    """Yield the role of each pod, whether it computes, the metadata by which it is in a group, and its scheduler."""
    for pods in structures.pods(workload):
        keys = {**pods.metadata.get("annotations", {}), **pods.metadata.get("labels", {})}
        group = {key: value for key, value in keys.items() if key.startswith("scheduling.")}
        yield pods.name, pods.computes, group, pods.spec.get("schedulerName")


@pytest.mark.parametrize(
    ("gang", "api", "key", "scheduler"),
    [
        ("volcano", "scheduling.volcano.sh/v1beta1", "scheduling.k8s.io/group-name", "volcano"),
        (
            "coscheduling",
            "scheduling.x-k8s.io/v1alpha1",
            "scheduling.x-k8s.io/pod-group",
            "scheduler-plugins-scheduler",
        ),
    ],
)
def test_gang_makes_a_pod_group_of_the_pods_that_compute(
    build: Any, mlpack: Mlpack, kubectl: Path, gang: str, api: str, key: str, scheduler: str
) -> None:
    package = build(gang)
    assert mlpack("configure", package, "--overlay", "servers", "--set", "WORKERS=5").code == 0
    assert mlpack("verify", package, "--kubectl", kubectl).code == 0
    for overlay, count in (("multi-node", 2), ("servers", 5)):
        workload, [group] = objects(package, overlay)
        assert (group.api, group.name) == (api, f"hello-mpi-{overlay}")
        spec = group.data["spec"]
        assert all(isinstance(value, CRDS[api][field]) for field, value in spec.items())
        assert spec["minMember"] == count
        assert spec.get("queue") == ("default" if gang == "volcano" else None)
        for _, computes, groups, name in members(workload):
            assert (groups, name) == (({key: group.name}, scheduler) if computes else ({}, None))


def test_gang_of_kai_includes_the_launcher_and_names_a_queue(build: Any, mlpack: Mlpack, kubectl: Path) -> None:
    package = build("kai", "--site", "GANG_QUEUE=team-a", "--site", "GANG_SCHEDULER=kai")
    workload, groups = objects(package, "multi-node")
    assert groups == []
    assert workload.data["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"
    assert [scheduler for *_, scheduler in members(workload)] == ["kai", "kai"]
    refused = mlpack("verify", package, "--kubectl", kubectl)
    assert refused.code == 5
    message = "gang: KAI has no groups for a JobSet, so it would start the pods of JobSet hello-mpi-servers one by one"
    assert refused.stdout.endswith(f": {message} (set GANG to volcano or coscheduling)\n")
    assert refused.stdout.count("\n") == 1


def test_gang_follows_the_prefix_of_an_outer_overlay(build: Any, tmp_path: Path) -> None:
    build("volcano")
    tmp_path.joinpath("kustomization.yaml").write_text(
        f"namePrefix: alice-\nresources: [hello-mpi/{OVERLAYS}/servers, hello-mpi/{OVERLAYS}/multi-node]\n"
    )
    rendered = kustomize(tmp_path, program=str(kubectls.kubectl())).manifests
    for overlay in ("servers", "multi-node"):
        assert f"scheduling.k8s.io/group-name: alice-hello-mpi-{overlay}\n" in rendered

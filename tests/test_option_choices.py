"""Tests of site options whose values say what they make: rdma, object-storage, tracking and autoscale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.kubernetes.kubectl.kustomize import kustomize
from packager.kubernetes.manifest import Manifest
from packager.package.layout import OVERLAYS
from packager.workloads import structures
from tests import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from packager.workloads.pods import Pods
    from tests.conftest import Mlpack

SERVER = [f"--set={argument}" for argument in kinds.SET if argument.startswith("overlays.server.")]
SERVERS = [f"--set={argument}" for argument in kinds.SET if argument.startswith("overlays.servers.")]
RDMA = ("rdma", "RDMA_RESOURCE=rdma/hca.shared")


@pytest.fixture
def build(mlpack: Mlpack, tmp_path: Path, kubectl: Path) -> Callable[..., Iterator[Manifest]]:
    """A function that builds and verifies hello-mpi with an option and values, and yields the objects of overlays."""

    def run(option: str, *values: str, also: Sequence[str] = (), overlay: str = "*") -> Iterator[Manifest]:
        site = [f"--site={value}" for value in values]
        done = mlpack("build", "hello-mpi", "--format", "dir", "--root", "/srv", "--with", option, *site, *also)
        assert done.code == 0, done.stderr
        verified = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
        assert verified.code == 0, verified.stdout
        for folder in sorted((tmp_path / "hello-mpi" / OVERLAYS).glob(overlay)):
            documents, _ = yamlio.load_all(kustomize(folder, program=str(kubectl)).manifests.encode(), "")
            yield from (Manifest(document.data) for document in documents)

    return run


def computing(objects: Iterator[Manifest]) -> list[Pods]:
    pods = [pods for manifest in objects if structures.is_workload(manifest) for pods in structures.pods(manifest)]
    assert pods
    return [one for one in pods if one.computes]


def variables(pods: Pods) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in pods.spec["containers"][0]["env"]}


def test_rdma_adds_devices_variables_and_networks(build: Callable[..., Iterator[Manifest]]) -> None:
    values = ("RDMA_COUNT=8", "RDMA_NETWORK=roce-a,team/roce-b", "RDMA_HCA=^mlx5_0", "RDMA_INTERFACE=ens1")
    found = [pods for pods in computing(build(*RDMA, *values, also=SERVERS)) if pods.manifest.kind != "Pod"]
    assert [pods.role for pods in found] == ["Worker", "worker"]
    for pods in found:
        container = pods.spec["containers"][0]
        assert container["resources"]["limits"]["rdma/hca.shared"] == "8"
        assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert {"NCCL_IB_HCA": "^mlx5_0", "NCCL_SOCKET_IFNAME": "ens1"}.items() <= variables(pods).items()
        assert pods.metadata["annotations"]["k8s.v1.cni.cncf.io/networks"] == "roce-a,team/roce-b"


def test_verify_accepts_the_capability_of_rdma_and_no_other_weakening(mlpack: Mlpack, kubectl: Path) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", "--root", "/srv").code == 0
    switched = ("--with", "rdma", "--site", "RDMA_RESOURCE=rdma/ib")
    done = mlpack("configure", "hello-mpi", "--overlay", "multi-node", *switched)
    assert done.code == 0, done.stderr
    assert "--pod-security" not in done.stderr
    assert mlpack("verify", "hello-mpi", "--kubectl", kubectl).code == 0
    asked = mlpack("verify", "hello-mpi", "--kubectl", kubectl, "--pod-security", "baseline")
    assert asked.code == 5
    assert 'the capability IPC_LOCK, which Pod Security "baseline" forbids' in asked.stdout
    assert mlpack("configure", "hello-mpi", "--overlay", "multi-node", "--with", "host-network").code == 0
    refused = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
    assert refused.code == 5
    assert "hostNetwork" in refused.stdout
    assert "IPC_LOCK" not in refused.stdout


def test_options_for_several_pods_are_refused_for_one(mlpack: Mlpack) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir").code == 0
    for option, reason in (
        ("rdma", "it is for pods on several nodes that work together, and single-node has none"),
        ("gang", "it is for pods that work together, all of them in one role, and single-node has none"),
    ):
        done = mlpack("configure", "hello-mpi", "--overlay", "single-node", "--with", option)
        assert done.code == 2
        assert f"hint: {reason}" in done.stderr


def test_object_storage_mounts_a_bucket_of_gcs(build: Callable[..., Iterator[Manifest]]) -> None:
    values = ("BUCKET=images", "BUCKET_DIR=/dataset", "BUCKET_DRIVER=gcs")
    source = {
        "driver": "gcsfuse.csi.storage.gke.io",
        "readOnly": True,
        "volumeAttributes": {"bucketName": "images", "mountOptions": "implicit-dirs"},
    }
    for pods in computing(build("object-storage", *values)):
        assert {"name": "bucket", "csi": source} in pods.spec["volumes"]
        mount = {"name": "bucket", "mountPath": "/dataset", "readOnly": True}
        assert mount in pods.spec["containers"][0]["volumeMounts"]
        assert "gke-gcsfuse/volumes" in pods.metadata["annotations"]


def test_secrets_of_object_storage_and_tracking_become_variables(
    build: Callable[..., Iterator[Manifest]], mlpack: Mlpack, kubectl: Path
) -> None:
    tracking = ("TRACKING=wandb", "TRACKING_URL=https://api.wandb.ai", "TRACKING_SECRET=wandb")
    options = ("--with", "tracking", *(f"--site={value}" for value in tracking))
    values = ("BUCKET_DRIVER=client", "BUCKET=images", "BUCKET_SECRET=s3")
    for pods in computing(build("object-storage", *values, also=options)):
        container = pods.spec["containers"][0]
        assert container["envFrom"][1:] == [{"secretRef": {"name": "s3"}}, {"secretRef": {"name": "wandb"}}]
        assert variables(pods)["BUCKET"] == "images"
        assert not [volume for volume in pods.spec["volumes"] if volume["name"] == "bucket"]
    assert mlpack("configure", "hello-mpi", "--set", "TRACKING_SECRET=another").code == 0
    refused = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
    assert refused.code == 5
    message = "reads the Secret 'another' of the namespace, which no build does (--allow Secret permits it)"
    assert message in refused.stdout


@pytest.mark.parametrize(
    ("client", "url", "expected"),
    [
        ("wandb", "http://w", {"WANDB_BASE_URL": "URL", "WANDB_PROJECT": "hello-mpi", "WANDB_DIR": "$(OUTPUT_DIR)"}),
        ("tensorboard", "none", {"TENSORBOARD_LOGGING_DIR": "$(OUTPUT_DIR)/tensorboard"}),
    ],
)
def test_tracking_sets_the_variables_of_a_client(
    build: Callable[..., Iterator[Manifest]], client: str, url: str, expected: dict[str, str]
) -> None:
    for pods in computing(build("tracking", f"TRACKING={client}", f"TRACKING_URL={url}")):
        names = ("MLFLOW", "WANDB", "TENSORBOARD")
        found = {name: value for name, value in variables(pods).items() if name.startswith(names)}
        assert found == {name: value.replace("URL", url) for name, value in expected.items()}
        assert len(pods.spec["containers"][0]["envFrom"]) == 1


def test_autoscale_takes_a_metric_of_its_own_beside_cpu(build: Callable[..., Iterator[Manifest]]) -> None:
    values = ("AUTOSCALE_METRIC_KIND=Pods", "AUTOSCALE_METRIC=vllm:waiting", "AUTOSCALE_METRIC_VALUE=500m")
    objects = build("autoscale", *values, also=SERVER, overlay="server")
    [autoscaler] = [item for item in objects if item.kind == "HorizontalPodAutoscaler"]
    cpu, *others = autoscaler.data["spec"]["metrics"]
    assert cpu["resource"]["target"]["averageUtilization"] == 80
    target = {"type": "AverageValue", "averageValue": "500m"}
    assert others == [{"type": "Pods", "pods": {"metric": {"name": "vllm:waiting"}, "target": target}}]

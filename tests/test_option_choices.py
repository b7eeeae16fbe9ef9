"""Tests of site options whose values say what they make: rdma, device-claim, object-storage, tracking and autoscale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.base import yamlio
from packager.kubernetes.manifest import Manifest
from packager.package.layout import OVERLAYS
from packager.workloads import structures
from tests import kinds, kubectls
from tests.test_matrix import assert_alike

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from packager.workloads.pods import Pods
    from tests.conftest import Mlpack

BOTH_ENDS = (kubectls.VERSIONS[0], kubectls.VERSIONS[-1])
SET = [f"--set={argument}" for argument in kinds.SET]
RDMA = ("rdma", "RDMA_RESOURCE=rdma/hca.shared")


@pytest.fixture
def build(mlpack: Mlpack, tmp_path: Path, kubectl: Path) -> Callable[..., Path]:
    """A function that builds hello-mpi in every kind with an option and its values, and verifies it."""

    def run(option: str, *values: str, also: tuple[str, ...] = ()) -> Path:
        site = [f"--site={value}" for value in values]
        done = mlpack("build", "hello-mpi", "--format", "dir", "--root", "/srv", *SET, "--with", option, *site, *also)
        assert done.code == 0, done.stderr
        verified = mlpack("verify", "hello-mpi", "--kubectl", kubectl)
        assert verified.code == 0, verified.stdout
        return tmp_path / "hello-mpi"

    return run


def objects(package: Path, overlay: str) -> list[Manifest]:
    documents, _ = yamlio.load_all(assert_alike(package / OVERLAYS / overlay, BOTH_ENDS).encode(), "")
    return [Manifest(document.data) for document in documents]


def computing(package: Path, *overlays: str) -> Iterator[Pods]:
    """Yield the pods that compute, and assert that the others have nothing of an option."""
    for overlay in overlays or kinds.OVERLAYS:
        [workload] = filter(structures.is_workload, objects(package, overlay))
        for pods in structures.pods(workload):
            if pods.computes:
                yield pods


def variables(pods: Pods) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in pods.spec["containers"][0]["env"]}


@pytest.mark.parametrize(("network", "expected"), [("none", None), ("roce-a,team/roce-b", "roce-a,team/roce-b")])
def test_rdma_adds_devices_variables_and_networks(
    build: Callable[..., Path], network: str, expected: str | None
) -> None:
    package = build(*RDMA, "RDMA_COUNT=8", f"RDMA_NETWORK={network}", "RDMA_HCA=^mlx5_0", "RDMA_INTERFACE=ens1")
    found = list(computing(package, "multi-node", "servers"))
    assert len(found) == 2
    for pods in found:
        container = pods.spec["containers"][0]
        assert container["resources"]["limits"]["rdma/hca.shared"] == "8"
        assert "IPC_LOCK" in container["securityContext"]["capabilities"]["add"]
        assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert {"NCCL_IB_HCA": "^mlx5_0", "NCCL_SOCKET_IFNAME": "ens1"}.items() <= variables(pods).items()
        assert pods.metadata["annotations"].get("k8s.v1.cni.cncf.io/networks") == expected


def test_rdma_and_root_keep_the_capabilities_of_root(build: Callable[..., Path]) -> None:
    package = build(*RDMA, also=("--with", "root"))
    for pods in computing(package, "multi-node", "servers"):
        capabilities = pods.spec["containers"][0]["securityContext"]["capabilities"]
        assert "drop" not in capabilities
        assert "IPC_LOCK" in capabilities["add"]


def test_verify_accepts_the_capability_of_rdma_and_no_other_weakening(mlpack: Mlpack, kubectl: Path) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", "--root", "/srv", *SET).code == 0
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


@pytest.mark.parametrize("overlay", ["single-node", "one-job", "server"])
def test_rdma_is_refused_for_pods_that_work_alone(mlpack: Mlpack, overlay: str) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", *SET).code == 0
    done = mlpack("configure", "hello-mpi", "--overlay", overlay, "--with", "rdma")
    assert done.code == 2
    reason = f"it is for pods on several nodes that work together, and {overlay} has none"
    assert f"hint: {reason}" in done.stderr


def test_device_claim_gives_each_computing_pod_a_claim(build: Callable[..., Path], mlpack: Mlpack) -> None:
    found = list(computing(build("device-claim", "DEVICE_CLAIM=eight-gpus")))
    assert len(found) == len(kinds.OVERLAYS) + 1  # a LeaderWorkerSet has leaders and workers
    for pods in found:
        claim = {"name": "devices", "resourceClaimTemplateName": "eight-gpus"}
        assert pods.spec["resourceClaims"] == [claim]
        assert pods.spec["containers"][0]["resources"]["claims"] == [{"name": "devices"}]
    done = mlpack("verify", "hello-mpi", "--kubernetes-version", "1.33")
    assert done.code == 5
    assert "device-claim needs Kubernetes 1.34 or later, not 1.33" in done.stdout


GCS = {
    "driver": "gcsfuse.csi.storage.gke.io",
    "readOnly": True,
    "volumeAttributes": {"bucketName": "images", "mountOptions": "implicit-dirs"},
}


@pytest.mark.parametrize(
    ("driver", "source"),
    [
        ("s3", {"persistentVolumeClaim": {"claimName": "s3-images", "readOnly": True}}),
        ("gcs", {"csi": GCS}),
    ],
)
def test_object_storage_mounts_a_bucket(build: Callable[..., Path], driver: str, source: dict[str, Any]) -> None:
    values = ("BUCKET=images", "BUCKET_CLAIM=s3-images", "BUCKET_DIR=/dataset", f"BUCKET_DRIVER={driver}")
    for pods in computing(build("object-storage", *values)):
        assert {"name": "bucket", **source} in pods.spec["volumes"]
        mount = {"name": "bucket", "mountPath": "/dataset", "readOnly": True}
        assert mount in pods.spec["containers"][0]["volumeMounts"]
        assert ("gke-gcsfuse/volumes" in pods.metadata["annotations"]) == (driver == "gcs")


def test_secrets_of_object_storage_and_tracking_become_variables(build: Callable[..., Path], mlpack: Mlpack) -> None:
    tracking = ("TRACKING=wandb", "TRACKING_URL=https://api.wandb.ai", "TRACKING_SECRET=wandb")
    options = ("--with", "tracking", *(f"--site={value}" for value in tracking))
    package = build("object-storage", "BUCKET_DRIVER=client", "BUCKET=images", "BUCKET_SECRET=s3", also=options)
    for pods in computing(package):
        container = pods.spec["containers"][0]
        assert container["envFrom"][1:] == [{"secretRef": {"name": "s3"}}, {"secretRef": {"name": "wandb"}}]
        assert variables(pods)["BUCKET"] == "images"
        assert not [volume for volume in pods.spec["volumes"] if volume["name"] == "bucket"]
    assert mlpack("configure", package, "--set", "TRACKING_SECRET=another").code == 0
    refused = mlpack("verify", package)
    assert refused.code == 5
    message = "reads the Secret 'another' of the namespace, which no build does (--allow Secret permits it)"
    assert message in refused.stdout


@pytest.mark.parametrize(
    ("client", "url", "expected"),
    [
        (
            "mlflow",
            "https://m.example.com:8443/a",
            {"MLFLOW_TRACKING_URI": "URL", "MLFLOW_EXPERIMENT_NAME": "hello-mpi"},
        ),
        ("wandb", "http://w", {"WANDB_BASE_URL": "URL", "WANDB_PROJECT": "hello-mpi", "WANDB_DIR": "$(OUTPUT_DIR)"}),
        ("tensorboard", "none", {"TENSORBOARD_LOGGING_DIR": "$(OUTPUT_DIR)/tensorboard"}),
    ],
)
def test_tracking_sets_the_variables_of_a_client(
    build: Callable[..., Path], client: str, url: str, expected: dict[str, str]
) -> None:
    for pods in computing(build("tracking", f"TRACKING={client}", f"TRACKING_URL={url}")):
        names = ("MLFLOW", "WANDB", "TENSORBOARD")
        found = {name: value for name, value in variables(pods).items() if name.startswith(names)}
        assert found == {name: value.replace("URL", url) for name, value in expected.items()}
        assert len(pods.spec["containers"][0]["envFrom"]) == 1


def test_configure_says_that_a_new_secret_has_to_be_allowed(mlpack: Mlpack, kubectl: Path) -> None:
    assert mlpack("build", "hello-mpi", "--format", "dir", "--root", "/srv").code == 0
    values = ("TRACKING=wandb", "TRACKING_URL=https://api.wandb.ai", "TRACKING_SECRET=wandb")
    done = mlpack("configure", "hello-mpi", "--with", "tracking", *(f"--site={value}" for value in values))
    assert "doctor, verify, deploy and run need --allow Secret: the package was sealed without that" in done.stderr
    assert mlpack("verify", "hello-mpi", "--kubectl", kubectl).code == 5
    assert mlpack("verify", "hello-mpi", "--kubectl", kubectl, "--allow", "Secret").code == 0


def test_tracking_needs_a_server_for_mlflow(mlpack: Mlpack) -> None:
    values = ("--site", "TRACKING=mlflow", "--site", "TRACKING_URL=none")
    assert mlpack("build", "hello-mpi", "--format", "dir", "--with", "tracking", *values).code == 0
    done = mlpack("verify", "hello-mpi")
    assert done.code == 5
    assert "mlflow needs the address of its server as TRACKING_URL" in done.stdout


@pytest.mark.parametrize(
    ("kind", "key"), [("none", None), ("Pods", "pods"), ("External", "external")], ids=["none", "pods", "external"]
)
def test_autoscale_takes_a_metric_of_its_own_beside_cpu(build: Callable[..., Path], kind: str, key: str | None) -> None:
    values = (f"AUTOSCALE_METRIC_KIND={kind}", "AUTOSCALE_METRIC=vllm:waiting", "AUTOSCALE_METRIC_VALUE=500m")
    [autoscaler] = [
        item for item in objects(build("autoscale", *values), "server") if item.kind == "HorizontalPodAutoscaler"
    ]
    cpu, *others = autoscaler.data["spec"]["metrics"]
    assert cpu["resource"]["target"]["averageUtilization"] == 80
    target = {"type": "AverageValue", "averageValue": "500m"}
    expected = [{"type": kind, key: {"metric": {"name": "vllm:waiting"}, "target": target}}] if key else []
    assert others == expected

"""Tests of doctor's check of the nodes that have to mount images as volumes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from packager.cluster.doctor.case import Case
from packager.cluster.doctor.imagevolumes import image_volumes
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.manifest import Manifest
from packager.workloads import structures
from tests.fake_cluster import FakeCluster, item

GATE = ": its feature gate ImageVolume has to be on"
PACKAGE = "mlpack configure p.tar.gz --without package-volume"


def node(name: str, kubelet: str, runtime: str) -> dict[str, Any]:
    info = {"kubeletVersion": kubelet, "containerRuntimeVersion": runtime}
    return item("Node", name, spec={}, status={"nodeInfo": info})


def results(*nodes: dict[str, Any], folder: str | None = "hello-mpi") -> list[tuple[str, str, str | None]]:
    """Return the results for a pod that mounts an image, or a folder of it."""
    mount = {"name": "scripts", "mountPath": "/m", **({"subPath": folder} if folder else {})}
    spec = {
        "containers": [{"name": "main", "volumeMounts": [mount]}],
        "volumes": [{"name": "scripts", "image": {"reference": "a/b:1"}}],
    }
    pods = tuple(
        structures.pods(Manifest({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}))
    )
    return found(FakeCluster(list(nodes)), pods)


def found(cluster: FakeCluster, pods: tuple[Any, ...]) -> list[tuple[str, str, str | None]]:
    overlay = cast("Any", SimpleNamespace(pods=pods))
    unused = cast("Any", None)
    case = Case("p.tar.gz", Kubectl(runner=cluster), "team", unused, overlay, unused, (), unused)
    return [(str(result.state), result.message, result.fix) for result in image_volumes(case)]


def test_volumes_check_passes_with_new_kubelet_and_runtime() -> None:
    versions = "kubelet v1.36.0 and containerd 2.2.1"
    expected = [("ok", f"the nodes can mount images as volumes: {versions}", None)]
    assert results(node("a", "v1.36.0", "containerd://2.2.1"), node("b", "v1.36.0", "containerd://2.2.1")) == expected


def test_volumes_check_fails_on_old_versions() -> None:
    for kubelet, runtime, folder, reason in [
        ("v1.30.2", "containerd://2.2.1", None, "kubelet v1.30.2, and 1.36 is needed"),
        ("v1.36.0", "containerd://1.6.20", None, "containerd 1.6.20, and 2.1 is needed"),
        ("v1.36.0", "containerd://2.1.4", "hello-mpi", "containerd 2.1.4, and 2.2 is needed"),
        ("v1.36.0", "cri-o://1.32.0", "hello-mpi", "cri-o 1.32.0, and 1.33 is needed"),
    ]:
        fix = PACKAGE if folder else "mlpack configure p.tar.gz --without weights"
        message = f"no node can mount images as volumes: a has {reason}"
        assert results(node("a", kubelet, runtime), folder=folder) == [("fails", message, fix)]


def test_volumes_check_names_nodes_that_cannot() -> None:
    old = [node(name, "v1.36.0", "containerd://1.7.0") for name in "abcd"]
    [(state, message, _)] = results(*old, node("new", "v1.36.0", "containerd://2.2.0"))
    assert state == "note"
    assert message == (
        "4 of 5 nodes cannot mount images as volumes: a has containerd 1.7.0, and 2.2 is needed; "
        "b has containerd 1.7.0, and 2.2 is needed; c has containerd 1.7.0, and 2.2 is needed; and 1 more"
        ": keep the pods off them with the option placement"
    )


def test_volumes_check_reports_unknown_runtimes_and_gates() -> None:
    for kubelet, runtime, message in [
        (
            "v1.33.1",
            "containerd://2.2.0",
            "a has kubelet v1.33.1 and containerd 2.2.0, which may not mount images as volumes" + GATE,
        ),
        ("v1.36.0", "other://1.0", "a has kubelet v1.36.0 and other 1.0, which may not mount images as volumes"),
    ]:
        assert results(node("a", kubelet, runtime)) == [("unknown", message, "kubectl get nodes -o wide")]

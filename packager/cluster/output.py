"""Copies OUTPUT_DIR into a local folder, from a running pod or from a volume that outlives its pods.

Tests: cluster/test_results.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError
from packager.cluster.temporary_pod import HelperPod, running
from packager.workloads.pods import outlives_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class Output:
    """The place of a workload's results.

    Attributes:
        path: OUTPUT_DIR, in the container.
        container: The container that writes the results, from the PodSpec.
        volume: The volume that contains OUTPUT_DIR; None for the container's own file system.
        mounts: The container's mounts of the volume.
    """

    path: str
    container: Object
    volume: Object | None
    mounts: tuple[Object, ...] = ()

    @property
    def outlives_pods(self) -> bool:
        """Whether the results outlive the pods."""
        return self.volume is not None and outlives_pods(self.volume)

    @property
    def storage(self) -> str:
        """The name of the storage of the results, for messages."""
        if self.volume is None:
            return "the container's own file system"
        return storage_of(self.volume, self.mounts[0] if self.mounts else {})


def storage_of(volume: Object, mount: Object) -> str:
    """Return the name of a mounted volume for messages: `the claim results`, `the folder resnet50 of nfs`."""
    claim = volume.get("persistentVolumeClaim")
    name = f"the claim {claim['claimName']}" if claim else next(key for key in volume if key != "name")
    folder = mount.get("subPath", ".")
    return name if folder == "." else f"the folder {folder} of {name}"


def output_of(pod_spec: Object, objects: Sequence[Object]) -> Output:
    """Return the place to which the pods of a workload write.

    Args:
        pod_spec: The PodSpec of the pods that compute.
        objects: The objects that are applied with the workload, including the ConfigMap of mlops.env.

    Raises:
        ClusterError: OUTPUT_DIR is not set.
    """
    values = [item.get("data", {}).get("OUTPUT_DIR") for item in objects if item["kind"] == "ConfigMap"]
    path = next((value for value in values if value), None)
    if path is None:
        raise ClusterError("OUTPUT_DIR is not set in mlops.env")
    path = str(PurePosixPath("/") / path)  # the kubelet mounts a relative path below the root
    container = pod_spec["containers"][0]
    mounts = [mount for mount in container.get("volumeMounts", ()) if _covers(mount, path)]
    if not mounts:
        return Output(path, container, None)
    volume_name = max(mounts, key=lambda mount: len(mount["mountPath"]))["name"]
    volume = next(item for item in pod_spec["volumes"] if item["name"] == volume_name)
    return Output(path, container, volume, tuple(mount for mount in mounts if mount["name"] == volume_name))


def reader(
    kubectl: Kubectl, workload: str, pod_spec: Object, output: Output, tell: Callable[[str], object]
) -> AbstractContextManager[str]:
    """Run a pod that mounts the volume of the results, yield its name, and delete it; see `helper.running`."""
    assert output.volume is not None
    helper = HelperPod(
        component="results",
        words="the pod that reads the results",
        container="reader",
        memory="256Mi",
        mounts=output.mounts,
        volumes=(output.volume,),
    )
    return running(kubectl, helper, workload, pod_spec, tell)


def _covers(mount: Object, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath("/") / mount["mountPath"])

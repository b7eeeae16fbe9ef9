"""Copies OUTPUT_DIR into a local folder, from a running pod or from a volume that outlives its pods."""

from __future__ import annotations

import json
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import ClusterError, MlpackError, TimedOutError
from packager.cluster.observe import events_of
from packager.cluster.obstacles import obstacles
from packager.kubectl.refusals import error_from, explained_error
from packager.kubernetes.objects import name, status
from packager.kubernetes.pods import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

READER_LIFETIME = 3600
"""Seconds after which a reader pod that was not deleted, for example after a crash of this machine, ends."""

_READER_PATIENCE = 120.0
_SECONDS = 60.0

# Volumes that are gone with their pod.
_EPHEMERAL_VOLUMES = ("emptyDir", "ephemeral", "configMap", "secret", "downwardAPI", "projected")


@dataclass(frozen=True, slots=True)
class Output:
    """The place of the results.

    Attributes:
        path: OUTPUT_DIR, as the container sees it.
        container: The container that writes them, of the pod's spec.
        volume: The volume that OUTPUT_DIR lies on; None for the container's own file system.
        mounts: How the container mounts the volume.
    """

    path: str
    container: Object
    volume: Object | None
    mounts: tuple[Object, ...] = ()

    @property
    def outlives_pods(self) -> bool:
        """Whether the results outlive the pods."""
        return self.volume is not None and not any(kind in self.volume for kind in _EPHEMERAL_VOLUMES)

    @property
    def storage(self) -> str:
        """What the results are on, for a person."""
        if self.volume is None:
            return "the container's own file system"
        claim = self.volume.get("persistentVolumeClaim")
        return f"the claim {claim['claimName']}" if claim else next(key for key in self.volume if key != "name")


def output_of(pod_spec: Object, objects: Sequence[Object]) -> Output:
    """Return the place to which the pods of a workload write.

    Args:
        pod_spec: Of the pods that compute.
        objects: What is applied together with the workload: mlops.env is a ConfigMap among them.

    Raises:
        ClusterError: There is no OUTPUT_DIR.
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


@contextmanager
def reader(
    kubectl: Kubectl, workload: str, pod_spec: Object, output: Output, tell: Callable[[str], object]
) -> Iterator[str]:
    """Run a pod that does nothing but mount the volume, give its name, and delete it afterwards.

    It is the workload's own image, user and security context: what the cluster let run once, it lets run again. `tell`
    is told when the pod stays.

    Raises:
        ClusterError: It cannot be made, or cannot run.
        TimedOutError: It does not start.
    """
    pod = _reader_pod(workload, pod_spec, output)
    pod_name = name(pod)
    try:
        with workfolder.temporary() as folder:
            file = folder / "reader.json"
            file.write_text(json.dumps(pod), encoding="utf-8")
            done = kubectl.run("create", f"--filename={file}", timeout=_SECONDS)
        if done.returncode != 0:
            refused = explained_error(done.stderr)
            raise ClusterError(f"the pod that reads the results cannot be created: {refused}", hint=refused.hint)
        _await_running(kubectl, pod_name)
        yield pod_name
    finally:
        _remove(kubectl, pod_name, tell)


def _remove(kubectl: Kubectl, pod_name: str, tell: Callable[[str], object]) -> None:
    flags = ("--ignore-not-found", "--wait=false", "--grace-period=1")
    try:
        done = kubectl.run("delete", f"pods/{pod_name}", *flags, timeout=_SECONDS)
        problem = str(error_from(done.stderr)) if done.returncode != 0 else ""
    except MlpackError as error:
        problem = str(error)
    if problem:
        minutes = READER_LIFETIME // 60
        tell(f"pod/{pod_name} could not be deleted, and ends by itself within {minutes} minutes: {problem}")


def _reader_pod(workload: str, pod_spec: Object, output: Output) -> Object:
    kept = ("securityContext", "imagePullSecrets", "nodeSelector", "affinity", "tolerations", "serviceAccountName")
    container = {
        "name": "reader",
        "image": output.container["image"],
        "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"],
        "securityContext": output.container.get("securityContext") or {},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
        "volumeMounts": list(output.mounts),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{workload[:45]}-results-{secrets.token_hex(3)}",
            "labels": {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/component": "results"},
            "annotations": {"sidecar.istio.io/inject": "false"},
        },
        "spec": {
            **{key: pod_spec[key] for key in kept if key in pod_spec},
            "restartPolicy": "Never",
            "activeDeadlineSeconds": READER_LIFETIME,
            "automountServiceAccountToken": False,
            "containers": [container],
            "volumes": [output.volume],
        },
    }


def _await_running(kubectl: Kubectl, pod_name: str) -> None:
    deadline = kubectl.runner.clock() + _READER_PATIENCE
    while True:
        pod = kubectl.get(f"pods/{pod_name}")
        if pod is None:
            raise ClusterError(f"pod/{pod_name} was deleted")
        if status(pod).get("phase") == "Running":
            return
        if finding := failure(pod):
            raise ClusterError(f"the pod that reads the results has failed: {finding.message}", hint=finding.hint)
        if kubectl.runner.clock() > deadline:
            break
        kubectl.runner.sleep(0.5)
    finding = next(obstacles(pod, events_of(kubectl).items), None)
    problem = finding.message if finding else "it does not start"
    raise TimedOutError(f"the pod that reads the results: {problem}", hint=finding.hint if finding else None)


def _covers(mount: Object, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath("/") / mount["mountPath"])

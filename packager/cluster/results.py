"""OUTPUT_DIR -> a folder here: out of a pod that runs, or off a volume that has outlived its pods."""

from __future__ import annotations

import json
import re
import secrets
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packager import archive
from packager.cluster.deploy import explained
from packager.cluster.objects import name, status
from packager.cluster.pods import failure, obstacles
from packager.errors import ClusterError, TimedOutError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.archive import Received
    from packager.cluster.client import Kubectl
    from packager.cluster.objects import Object

READER_LIFETIME = 3600
"""Seconds after which a reader that nobody has deleted (this machine has crashed, say) ends by itself."""

_READER_PATIENCE = 120.0

# Volumes that are gone with their pod.
_PASSING = ("emptyDir", "ephemeral", "configMap", "secret", "downwardAPI", "projected")


@dataclass(frozen=True, slots=True)
class Output:
    """Where results are.

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
        """Whether the results are still there when the pods are gone."""
        return self.volume is not None and not any(kind in self.volume for kind in _PASSING)

    @property
    def storage(self) -> str:
        """What the results are on, for a person."""
        if self.volume is None:
            return "the container's own file system"
        claim = self.volume.get("persistentVolumeClaim")
        return f"the claim {claim['claimName']}" if claim else next(key for key in self.volume if key != "name")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a running container."""

    pod: str
    container: str
    path: str


def output_of(pod_spec: Object, objects: Sequence[Object]) -> Output:
    """Return where the pods of a workload write.

    Args:
        pod_spec: Of the pods that compute.
        objects: What is applied together with the workload: mlops.env is a ConfigMap among them.

    Raises:
        ClusterError: There is no OUTPUT_DIR.
    """
    values = [each.get("data", {}).get("OUTPUT_DIR") for each in objects if each["kind"] == "ConfigMap"]
    path = next((value for value in values if value), None)
    if path is None:
        raise ClusterError("there is no OUTPUT_DIR in mlops.env")
    path = str(PurePosixPath("/") / path)  # the kubelet mounts a relative path below the root
    container = pod_spec["containers"][0]
    mounts = [mount for mount in container.get("volumeMounts", ()) if _covers(mount, path)]
    if not mounts:
        return Output(path, container, None)
    volume_name = max(mounts, key=lambda mount: len(mount["mountPath"]))["name"]
    volume = next(each for each in pod_spec["volumes"] if each["name"] == volume_name)
    return Output(path, container, volume, tuple(mount for mount in mounts if mount["name"] == volume_name))


def copy(
    kubectl: Kubectl, place: Place, folder: Path, advance: Callable[[int], object] = lambda _size: None
) -> Received:
    """Copy what is at `place` into `folder`.

    Raises:
        ClusterError: The container has no such folder or no tar, or the connection broke off.
        VerificationError: What came is not what tar writes.
        OSError: `folder` cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tar = ["tar", "-c", "-f", "-", "-C", place.path, "."]
    arguments = ["exec", place.pod, f"--container={place.container}", "--", *tar]
    with kubectl.start(*arguments) as running:
        try:
            received = archive.receive(running.stdout, folder, advance)
            broken = None
        except VerificationError as error:
            received, broken = archive.Received(0, 0, ()), error
        while running.stdout.read(1 << 16):  # tar pads its end
            pass
        done = running.wait()
    if done.returncode != 0 and not re.search(r"changed as we read it|removed before we read it", done.stderr):
        raise _explained(place, done.stderr)
    if broken:
        raise broken
    return received


@contextmanager
def reader(kubectl: Kubectl, workload: str, pod_spec: Object, output: Output) -> Iterator[str]:
    """Run a pod that does nothing but mount the volume, give its name, and delete it afterwards.

    It is the workload's own image, user and security context: what the cluster let run once, it lets run again.

    Raises:
        ClusterError: It cannot be made, or cannot run.
        TimedOutError: It does not start.
    """
    pod = _reader_pod(workload, pod_spec, output)
    pod_name = name(pod)
    try:
        with tempfile.TemporaryDirectory(prefix="mlpack-") as folder:
            file = Path(folder) / "reader.json"
            file.write_text(json.dumps(pod), encoding="utf-8")
            done = kubectl.run("create", f"--filename={file}")
        if done.returncode != 0:
            refused = explained(done.stderr)
            raise ClusterError(f"the pod that reads the results cannot be made: {refused}", hint=refused.hint)
        _await(kubectl, pod_name)
        yield pod_name
    finally:
        kubectl.run("delete", f"pods/{pod_name}", "--ignore-not-found", "--wait=false", "--grace-period=1")


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


def _await(kubectl: Kubectl, pod_name: str) -> None:
    deadline = time.monotonic() + _READER_PATIENCE
    while True:
        pod = kubectl.get(f"pods/{pod_name}")
        if pod is None:
            raise ClusterError(f"somebody has deleted {pod_name}")
        if status(pod).get("phase") == "Running":
            return
        if found := failure(pod):
            raise ClusterError(f"the pod that reads the results has failed: {found.message}", hint=found.hint)
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    found = next(obstacles(pod, kubectl.items("events")), None)
    why = found.message if found else "it does not start"
    raise TimedOutError(f"the pod that reads the results: {why}", hint=found.hint if found else None)


def _covers(mount: Object, path: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath("/") / mount["mountPath"])


def _explained(place: Place, stderr: str) -> ClusterError:
    said = " ".join(stderr.split())
    if "executable file not found" in said or '"tar": ' in said:
        return ClusterError(
            f"the image of {place.container} has no tar, which copying takes", hint="add tar to the image"
        )
    if "No such file or directory" in said or "can't change directory" in said:
        return ClusterError(f"there is no {place.path} yet", hint="has the work begun? mlpack logs")
    return ClusterError(f"the copy broke off: {said}", hint="run it again; what has arrived is kept")

"""Runs a temporary pod that mounts volumes of a workload, so that commands can be run in it."""

from __future__ import annotations

import json
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.base import workfolder
from packager.base.errors import ClusterError, MlpackError, TimedOutError, UnreachableError
from packager.cluster.observe import events_of
from packager.diagnosis.obstacles import obstacles
from packager.kubernetes.kubectl.refusals import error_from, explained_error
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import name, status
from packager.kubernetes.pods import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object

LIFETIME = 3600
"""Seconds after which a pod ends that was not deleted, for example because this machine crashed."""

MANAGED_BY = {"app.kubernetes.io/managed-by": "mlpack"}
_COMPONENT = "app.kubernetes.io/component"

_PATIENCE = 120.0
_SECONDS = 60.0

_KEPT = ("securityContext", "imagePullSecrets", "nodeSelector", "affinity", "tolerations", "serviceAccountName")

# A command in the container is a second process. After five minutes without one, the pod is not needed any more.
_IDLE = """trap 'exit 0' TERM
quiet=0
while [ "$quiet" -lt 30 ]; do
    sleep 10 & wait $!
    set -- /proc/[0-9]*
    if [ $# -gt 1 ]; then quiet=0; else quiet=$((quiet + 1)); fi
done"""


@dataclass(frozen=True, slots=True)
class HelperPod:
    """A temporary pod, before it is created."""

    component: str  # the purpose of the pod in a word, which is part of its name and its label
    words: str  # the name of the pod in messages: `the pod that reads the results`
    container: str  # the name of its container
    memory: str  # the memory limit of its container
    mounts: Sequence[Object]  # how the container mounts the volumes
    volumes: Sequence[Object]  # the volumes
    image: str | None = None  # the image to use; None for the workload's

    def manifest(self, workload: str, pod_spec: Object) -> Object:
        """Return the manifest of a pod with the workload's user, image and node rules."""
        main = pod_spec["containers"][0]
        container = {
            "name": self.container,
            "image": self.image or main["image"],
            "command": ["/bin/sh", "-c", _IDLE],
            "securityContext": main.get("securityContext") or {},
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": self.memory}},
            "volumeMounts": list(self.mounts),
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{workload[:45]}-{self.component}-{secrets.token_hex(3)}",
                "labels": {**MANAGED_BY, _COMPONENT: self.component},
                "annotations": {"sidecar.istio.io/inject": "false"},
            },
            "spec": {
                **{key: pod_spec[key] for key in _KEPT if key in pod_spec},
                "restartPolicy": "Never",
                "activeDeadlineSeconds": LIFETIME,
                "automountServiceAccountToken": False,
                "containers": [container],
                "volumes": list(self.volumes),
            },
        }


def sweep(kubectl: Kubectl, component: str) -> None:
    """Delete the ended pods of a component, such as those left by a crash."""
    selector = ",".join(f"{key}={value}" for key, value in {**MANAGED_BY, _COMPONENT: component}.items())
    try:
        pods = kubectl.items("pods", f"--selector={selector}")
    except ClusterError:  # a user who may not list pods may still create one
        return
    ended = [name(pod) for pod in pods if status(pod).get("phase") in ("Succeeded", "Failed")]
    if ended:
        kubectl.run("delete", "pod", *ended, "--ignore-not-found", "--wait=false", timeout=_SECONDS)


@contextmanager
def running(
    kubectl: Kubectl, helper: HelperPod, workload: str, pod_spec: Object, tell: Callable[[str], object]
) -> Iterator[str]:
    """Run a helper pod, yield its name once it runs, and delete it afterwards."""
    _check_claims(kubectl, helper)
    pod = helper.manifest(workload, pod_spec)
    pod_name = name(pod)
    try:
        _create(kubectl, helper, pod)
        _await_running(kubectl, helper, pod_name)
        yield pod_name
    finally:
        _remove(kubectl, pod_name, tell)


def _check_claims(kubectl: Kubectl, helper: HelperPod) -> None:
    """Raise ClusterError for a claim that does not exist, for which the pod would wait until the timeout."""
    for volume in helper.volumes:
        claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
        try:
            exists = not claim or kubectl.get(f"persistentvolumeclaims/{claim}") is not None
        except UnreachableError:
            raise
        except ClusterError:  # a user who may not get claims may still mount one
            continue
        if not exists:
            hint = "create it, or let `mlpack run PACKAGE --claim-size SIZE` create it"
            raise ClusterError(f"claim {claim} not found in the namespace {kubectl.default_namespace()}", hint=hint)


def _create(kubectl: Kubectl, helper: HelperPod, pod: Object) -> None:
    with workfolder.temporary() as folder:
        file = folder / "pod.json"
        file.write_text(json.dumps(pod), encoding="utf-8")
        done = kubectl.run("create", f"--filename={file}", timeout=_SECONDS)
    if done.returncode != 0:
        refused = explained_error(done.stderr)
        raise ClusterError(f"{helper.words} cannot be created: {refused}", hint=refused.hint)


def _remove(kubectl: Kubectl, pod_name: str, tell: Callable[[str], object]) -> None:
    flags = ("--ignore-not-found", "--wait=false", "--grace-period=1")
    try:
        done = kubectl.run("delete", f"pods/{pod_name}", *flags, timeout=_SECONDS)
        problem = str(error_from(done.stderr)) if done.returncode != 0 else ""
    except MlpackError as error:
        problem = str(error)
    if problem:
        minutes = LIFETIME // 60
        tell(f"pod/{pod_name} could not be deleted, and ends by itself within {minutes} minutes: {problem}")


def _await_running(kubectl: Kubectl, helper: HelperPod, pod_name: str) -> None:
    deadline = kubectl.runner.clock() + _PATIENCE
    while True:
        pod = kubectl.get(f"pods/{pod_name}")
        if pod is None:
            raise ClusterError(f"pod/{pod_name} was deleted")
        if status(pod).get("phase") == "Running":
            return
        if finding := failure(pod):
            raise ClusterError(f"{helper.words} has failed: {finding.message}", hint=finding.hint)
        if kubectl.runner.clock() > deadline:
            break
        kubectl.runner.sleep(0.5)
    finding = next(obstacles(pod, events_of(kubectl).items), None)
    problem = finding.message if finding else "it does not start"
    raise TimedOutError(f"{helper.words}: {problem}", hint=finding.hint if finding else None)

"""Runs a temporary pod that mounts volumes of a workload, so that commands can be run in it."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from packager.base.errors import ClusterError, MlpackError, TimedOutError
from packager.cluster.apply import create
from packager.cluster.observe import events_of, if_allowed
from packager.cluster.target import Target
from packager.diagnosis.obstacles import obstacles
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import error_from, explained_error
from packager.kubernetes.manifest import mapping
from packager.kubernetes.objects import Object, status
from packager.kubernetes.pods import failure

CONTAINER = "files"
"""The name of the pod's container."""

LIFETIME = 3600
"""Seconds after which a pod ends that was not deleted, for example because this machine crashed."""

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


@contextmanager
def temporary_pod(  # noqa: PLR0913 - what it mounts, and what the user sees
    target: Target,
    pod_spec: Object,
    purpose: str,
    words: str,
    *,
    mounts: Sequence[Object],
    volume: Object,
    tell: Callable[[str], object],
    image: str | None = None,
) -> Iterator[str]:
    """Run a pod with the user, the image and the node rules of a workload's pods; yield its name once it runs.

    Args:
        target: The opened overlay of the workload.
        pod_spec: The PodSpec of the workload's pods.
        purpose: The purpose of the pod in a word, which is part of its name and its label.
        words: The pod in messages: `the pod that reads the results`.
        mounts: How its container mounts the volume.
        volume: The volume.
        tell: Receives the reason why the pod could not be deleted.
        image: The image of its container; None for the workload's.
    """
    kubectl, main = target.kubectl, pod_spec["containers"][0]
    labels = {"app.kubernetes.io/managed-by": "mlpack", "app.kubernetes.io/component": purpose}
    _check_claim(kubectl, volume)
    pod_name = f"{target.manifests.name[:45]}-{purpose}-{secrets.token_hex(3)}"
    container = {
        "name": CONTAINER,
        "image": image or main["image"],
        "command": ["/bin/sh", "-c", _IDLE],
        "securityContext": main.get("securityContext") or {},
        # Its memory does not depend on the size of the files.
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "1", "memory": "64Mi"}},
        "volumeMounts": list(mounts),
    }
    spec = {
        **{key: pod_spec[key] for key in _KEPT if key in pod_spec},
        "restartPolicy": "Never",
        "activeDeadlineSeconds": LIFETIME,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [volume],
    }
    metadata = {"name": pod_name, "labels": labels, "annotations": {"sidecar.istio.io/inject": "false"}}
    try:
        done = create(kubectl, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        if done.returncode != 0:
            refused = explained_error(done.stderr)
            raise ClusterError(f"{words} cannot be created: {refused}", hint=refused.hint)
        _await_running(kubectl, words, pod_name)
        yield pod_name
    finally:
        _remove(kubectl, pod_name, tell)


def _check_claim(kubectl: Kubectl, volume: Object) -> None:
    """Raise ClusterError for a claim that does not exist, for which the pod would wait until the timeout."""
    claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
    # A user who may not get claims may still mount one.
    if claim and if_allowed(lambda: kubectl.get(f"persistentvolumeclaims/{claim}"), {}) is None:
        hint = "create it, or let `mlpack run PACKAGE --claim-size SIZE` create it"
        raise ClusterError(f"claim {claim} not found in the namespace {kubectl.default_namespace()}", hint=hint)


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


def _await_running(kubectl: Kubectl, words: str, pod_name: str) -> None:
    deadline = kubectl.runner.clock() + _PATIENCE
    while True:
        pod = kubectl.get(f"pods/{pod_name}")
        if pod is None:
            raise ClusterError(f"pod/{pod_name} was deleted")
        if status(pod).get("phase") == "Running":
            return
        if finding := failure(pod):
            raise ClusterError(f"{words} has failed: {finding.message}", hint=finding.hint)
        if kubectl.runner.clock() > deadline:
            break
        kubectl.runner.sleep(0.5)
    finding = next(obstacles(pod, events_of(kubectl)[0]), None)
    problem = finding.message if finding else "it does not start"
    raise TimedOutError(f"{words}: {problem}", hint=finding.hint if finding else None)

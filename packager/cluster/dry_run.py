"""Tries the pods of an overlay with dry runs, since policies and webhooks for pods do not see templates.

Each template becomes a pod as the workload's controller would create it, with the labels that the controller adds.

Tests: cluster/test_admission.py.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from packager.base import workfolder
from packager.base.errors import MlpackError, UnreachableError
from packager.cluster.ownership import key
from packager.kubernetes.kubectl.refusals import error_from, refused_pod
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from packager.base.process import Finished
    from packager.cluster.manifests import Manifests
    from packager.cluster.ownership import Identity
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.objects import Object
    from packager.kubernetes.verdict import Finding
    from packager.workloads.pods import Pods

_SECONDS = 60.0
_AT_ONCE = 4

_TOKEN = "kube-api-access-"  # noqa: S105 - the beginning of a volume's name
"""The prefix of the name of the volume with a pod's token; the rest of the name is random."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a dry run of a pod."""

    pods: Pods  # the template of the pod
    sent: Object  # the pod that was sent
    answer: Object | None = None  # the pod as the server would create it; None if it would not
    error: MlpackError | None = None  # the error in place of an answer
    refusal: Finding | None = None  # the refusal of the pod, if the cluster has refused it

    @property
    def role(self) -> str:
        """The name of the pods in messages."""
        return self.pods.role.lower() or self.pods.manifest.name

    @property
    def spec(self) -> Mapping[str, Any]:
        """The PodSpec with which such a pod would run, without Kubernetes' own additions to every pod."""
        if self.answer is None:
            return self.pods.spec
        spec = dict(self.answer["spec"])
        volumes = listing(spec.get("volumes"))
        spec["volumes"] = [volume for volume in volumes if not str(volume.get("name")).startswith(_TOKEN)]
        if not self.pods.spec.get("serviceAccountName") and spec.get("serviceAccountName") == "default":
            del spec["serviceAccountName"]
        return spec


def try_pods(
    kubectl: Kubectl, manifests: Manifests, pods: Sequence[Pods], identity: Identity, planned: Sequence[Object] = ()
) -> tuple[Trial, ...]:
    """Try a pod of each template with a dry run, and return the results.

    Args:
        kubectl: The user's kubectl, set to the namespace.
        manifests: The objects that would be applied.
        pods: The templates in the manifests.
        identity: The user and the build of the package.
        planned: The objects as the server would store them, if known, since controllers use these.
    """
    stored = {key(item): Manifest(item) for item in planned}
    trials = [_made(manifests, _stored_template(template, stored), template, identity) for template in pods]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(partial(_tried, kubectl), trials))


def create(kubectl: Kubectl, item: Any, *arguments: str) -> Finished:
    """Run `kubectl create` for an object, and return the finished process. Raises the errors of `Kubectl.run`."""
    with workfolder.temporary() as folder:
        file = folder / "object.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        return kubectl.run("create", f"--filename={file}", *arguments, timeout=_SECONDS)


def _stored_template(template: Pods, stored: Mapping[tuple[str, str], Manifest]) -> Pods:
    """Return a template as the server would store it; a Pod is returned unchanged, since it is tried itself."""
    manifest = stored.get((template.manifest.kind, template.manifest.name))
    if manifest is None or not template.location:
        return template
    return next((pods for pods in pods_of(manifest) if pods.location == template.location), template)


def _made(manifests: Manifests, stored: Pods, template: Pods, identity: Identity) -> Trial:
    """Return a trial, not yet run, of a pod as it will be created."""
    maker = next((one for one in manifests.per_workload if one.workload is template.manifest.data), None)
    own = mapping(template.metadata.get("labels"))
    added = maker.kind.pod_labels(maker.name, template.role.lower()) if maker else {}
    notes: dict[str, str] = {}
    if maker and not template.location:
        added, notes = manifests.stamp(identity.digest, identity.user)
    labels = {**own, **mapping(stored.metadata.get("labels")), **added}
    metadata = {
        "generateName": "mlpack-doctor-",
        "labels": labels,
        "annotations": {**mapping(stored.metadata.get("annotations")), **notes},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**stored.spec, "restartPolicy": "Never"}}
    return Trial(template, pod)


def _tried(kubectl: Kubectl, trial: Trial) -> Trial:
    try:
        done = create(kubectl, trial.sent, "--dry-run=server", "--output=json")
        if done.returncode != 0:
            return replace(trial, error=error_from(done.stderr), refusal=refused_pod(done.stderr))
        answer = json.loads(done.stdout)
    except MlpackError as error:
        return replace(trial, error=error)
    except (ValueError, RecursionError):
        return replace(trial, error=UnreachableError("the cluster's response was cut off"))
    return replace(trial, answer=answer)

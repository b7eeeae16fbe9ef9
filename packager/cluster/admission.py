"""Tries the pods of an overlay with dry runs, and lists what the cluster's policies and webhooks change.

Policies for pods do not see templates: each template becomes a pod as the workload's controller would create it, with
the labels that the controller adds.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from packager.base import workfolder
from packager.base.errors import MlpackError, UnreachableError
from packager.base.process import Finished
from packager.cluster.differences import Difference, differences
from packager.cluster.manifests import Manifests
from packager.cluster.ownership import Identity, key
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import error_from, refused_pod
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import Object, shown
from packager.kubernetes.verdict import Finding
from packager.workloads.pods import Pods
from packager.workloads.structures import pods as pods_of

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

    Controllers use the objects as the server would store them, which are `planned`, if known.
    """
    stored = {key(item): Manifest(item) for item in planned}

    def attempt(template: Pods) -> Trial:
        trial = Trial(template, _pod(manifests, template, stored, identity))
        try:
            done = create(kubectl, trial.sent, "--dry-run=server", "--output=json")
            if done.returncode != 0:
                return replace(trial, error=error_from(done.stderr), refusal=refused_pod(done.stderr))
            return replace(trial, answer=json.loads(done.stdout))
        except MlpackError as error:
            return replace(trial, error=error)
        except (ValueError, RecursionError):
            return replace(trial, error=UnreachableError("the cluster's response was cut off"))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(attempt, pods))


def create(kubectl: Kubectl, item: Any, *arguments: str) -> Finished:
    """Run `kubectl create` for an object, and return the finished process. Raises the errors of `Kubectl.run`."""
    with workfolder.temporary() as folder:
        file = folder / "object.json"
        file.write_text(json.dumps(item), encoding="utf-8")
        return kubectl.run("create", f"--filename={file}", *arguments, timeout=_SECONDS)


def _pod(
    manifests: Manifests, template: Pods, stored: Mapping[tuple[str, str], Manifest], identity: Identity
) -> Object:
    """Return a pod as it will be created from its template as the server would store it."""
    manifest = stored.get((template.manifest.kind, template.manifest.name))
    planned = template
    if manifest is not None and template.location:
        planned = next((pods for pods in pods_of(manifest) if pods.location == template.location), template)
    maker = next((one for one in manifests.per_workload if one.workload is template.manifest.data), None)
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    if maker and not template.location:  # a Pod is applied itself
        labels, notes = manifests.stamp(identity.digest, identity.user)
    own, metadata = mapping(template.metadata.get("labels")), planned.metadata
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "mlpack-doctor-",
            "labels": {**own, **mapping(metadata.get("labels")), **labels},
            "annotations": {**mapping(metadata.get("annotations")), **notes},
        },
        "spec": {**planned.spec, "restartPolicy": "Never"},
    }


@dataclass(frozen=True, slots=True)
class AdmissionChange:
    """A value of a package that admission changes."""

    whose: str  # the changed object or pods: `mpijob/x`, `the pods of worker`
    difference: Difference  # the value before and after

    def __str__(self) -> str:
        return f"the cluster changes {self.whose}: {self.difference}"


def object_changes(sent: Iterable[Object], planned: Iterable[Object]) -> Iterator[AdmissionChange]:
    """Yield the changes that admission makes in objects."""
    before = {key(item): item for item in sent}
    for item in planned:
        if key(item) in before:
            yield from (AdmissionChange(shown(item), change) for change in _changes(before[key(item)], item))


def pod_changes(trials: Iterable[Trial]) -> Iterator[AdmissionChange]:
    """Yield the changes that admission makes in pods; the same change in several roles is yielded once."""
    changes: dict[str, tuple[Difference, list[str]]] = {}
    for trial in trials:
        if trial.answer:
            for change in _changes(trial.sent, trial.answer):
                changes.setdefault(str(change), (change, []))[1].append(trial.role)
    for change, roles in changes.values():
        yield AdmissionChange(f"the pods of {' and '.join(roles)}", change)


def _changes(sent: Object, answer: Object) -> list[Difference]:
    return [Difference(one.path, before=one.after, after=one.before) for one in differences(sent, answer)]

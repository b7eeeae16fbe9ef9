"""Case and CheckResult: the input and the output of a check.

Policies for pods do not see templates: each template is tried as a pod, without the labels and variables that the
workload's controller adds. Tests: cluster/test_doctor.py.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from shlex import quote
from typing import Any

from packager.base.errors import ClusterError, MlpackError, ToolError, UnreachableError
from packager.base.values import Value
from packager.cluster.apply import create, planned
from packager.cluster.doctor.demand import Demand, demands
from packager.cluster.ownership import Key, key, look_up, refuse_taken
from packager.cluster.target import Target
from packager.kubernetes.kubectl.client import Kubectl
from packager.kubernetes.kubectl.refusals import error_from, refused_pod
from packager.kubernetes.manifest import Manifest, listing, mapping
from packager.kubernetes.objects import Object
from packager.kubernetes.verdict import Finding
from packager.workloads.pods import Pods
from packager.workloads.structures import pods as pods_of

_AT_ONCE = 4

_TOKEN = "kube-api-access-"  # noqa: S105 - the beginning of a volume's name
"""The prefix of the name of the volume with a pod's token; the rest of the name is random."""


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    FAILS = "fails"
    UNKNOWN = "unknown"
    NOTE = "note"


class CheckResult(Value, frozen=True):
    """One result of a check."""

    check: str  # the name of the check
    state: CheckState  # whether the package would fail
    message: str  # the finding, in a sentence
    fix: str | None = None  # A command that fixes the problem, or that shows more about it


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a dry run of a pod."""

    pods: Pods  # the template of the pod
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


def try_pods(kubectl: Kubectl, target: Target, planned: Sequence[Object]) -> tuple[Trial, ...]:
    """Try a pod of each template with a dry run, and return the results.

    Controllers use the objects as the server would store them, which are `planned`, if known.
    """
    stored = {key(item): Manifest(item) for item in planned}

    def attempt(template: Pods) -> Trial:
        trial = Trial(template)
        try:
            done = create(kubectl, _pod(target, template, stored), "--dry-run=server", "--output=json")
            if done.returncode != 0:
                return replace(trial, error=error_from(done.stderr), refusal=refused_pod(done.stderr))
            return replace(trial, answer=json.loads(done.stdout))
        except MlpackError as error:
            return replace(trial, error=error)
        except (ValueError, RecursionError):
            return replace(trial, error=UnreachableError("the cluster's response was cut off"))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(attempt, target.rendered.pods))


def _pod(target: Target, template: Pods, stored: Mapping[Key, Manifest]) -> Object:
    """Return a pod as it will be created from its template as the server would store it."""
    manifests, manifest = target.manifests, stored.get((template.manifest.kind, template.manifest.name))
    planned = template
    if manifest is not None and template.location:
        planned = next((pods for pods in pods_of(manifest) if pods.location == template.location), template)
    maker = next((one for one in manifests.per_workload if one.workload is template.manifest.data), None)
    labels: dict[str, str] = {}
    notes: dict[str, str] = {}
    if maker and not template.location:  # a Pod is applied itself
        labels, notes = manifests.stamp(target.package.digest, target.person)
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


@dataclass(frozen=True)
class Case:
    """A package's overlay, and the cluster that it is to run in."""

    target: Target  # the overlay
    kubectl: Kubectl  # the user's kubectl, set to the namespace
    namespace: str  # the namespace to run in

    @cached_property
    def plan(self) -> tuple[list[Object], MlpackError | None]:
        """The objects as the server would store them, or the reason why it refuses a dry run of the manifests."""
        manifests, stamped = self.target.manifests, self.target.stamped(self.target.person)
        try:
            refuse_taken(look_up(self.kubectl, manifests.objects), self.target.identity)
            return planned(self.kubectl, stamped), None
        except (ClusterError, ToolError) as error:
            return [], error

    @cached_property
    def trials(self) -> tuple[Trial, ...]:
        """The pods of each template, as the server would create them."""
        return try_pods(self.kubectl, self.target, self.plan[0])

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """The resources that the workload's pods need, including changes by the cluster's policies."""
        return demands(self.target.rendered, [trial.spec for trial in self.trials])

    @property
    def namespace_flag(self) -> str:
        """The kubectl flag that selects the namespace."""
        return f"-n {quote(self.namespace)}"


def ok(check: str, message: str) -> CheckResult:
    """Return a result without a problem."""
    return CheckResult(check, CheckState.OK, message)


def fails(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a result for a problem that would make the package fail."""
    return CheckResult(check, CheckState.FAILS, message, fix)


def unknown(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a result for a check that could not be made."""
    return CheckResult(check, CheckState.UNKNOWN, message, fix)


def note(check: str, message: str, fix: str | None = None) -> CheckResult:
    """Return a result for a remark that does not make the package fail."""
    return CheckResult(check, CheckState.NOTE, message, fix)

"""Workload: the base class of a kind in a cluster (`<kind>/life.py`), all kinds, and the operators that they need.

Tests: diagnosis/test_diagnose.py.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Literal

from packager.kubernetes.manifest import Manifest
from packager.kubernetes.objects import (
    created,
    events_about,
    is_being_deleted,
    is_running,
    main_state,
    sentence,
    shown,
    status,
    true_condition,
)
from packager.kubernetes.pods import failure
from packager.kubernetes.remedy import Action, Remedy
from packager.kubernetes.verdict import Finding
from packager.workloads import of_each_kind
from packager.workloads.pods import number_of_pods
from packager.workloads.structures import is_suspended
from packager.workloads.structures import pods as pods_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from packager.kubernetes.objects import Object
    from packager.kubernetes.snapshot import Snapshot
    from packager.kubernetes.verdict import Verdict


_SILENCE = 8.0
"""Seconds in which a running controller or operator has acted on its objects; it usually takes less than one."""

_SILENT = "ControllerSilent"
"""The reason of a finding that a controller has not acted on its object."""

_START_CONTROLLER = Remedy.of(
    Action.START_CONTROLLER, controller="kube-controller-manager", pods="--namespace=kube-system"
)

Role = Literal["main", "worker"]
"""The role of a pod in a workload: the end of the main pod is the end of the workload."""


class Workload(ABC):
    """Finds the objects of one kind of workload, and reads their state."""

    name: ClassVar[str]
    """The kind, as in its manifests."""

    resource: ClassVar[str]
    """The resource name for kubectl, with its group, because other kinds may have the same name."""

    operator: ClassVar[Operator | None] = None
    """The operator that has to run in the cluster; None if Kubernetes itself runs the workload."""

    has_workers: ClassVar[bool] = False
    """Whether pods compute under the main one, rather than the main one itself."""

    serves: ClassVar[bool] = False
    """Whether it serves until it is deleted, and does not end by itself. It can be changed while it runs: its
    controller puts new pods in the place of old ones."""

    named_children: ClassVar[tuple[str, ...]] = ()
    """`resource/name` of the objects, other than pods, that the controller of the workload `{name}` makes."""

    owned: ClassVar[tuple[str, ...]] = ()
    """The resources between the workload and its pods whose names cannot be predicted, from the top down: they are
    looked up by the selector, and belong to the workload by their owners. As kubectl takes them, with their groups."""

    def children(self, name: str) -> tuple[str, ...]:
        """Return `resource/name` of the objects that the controller of workload `name` makes, other than pods."""
        return tuple(child.format(name=name) for child in self.named_children)

    name_label: ClassVar[str | None] = None
    """The label of its pods whose value is the workload's name; None if there is none."""

    def selector(self, workload: Object) -> Mapping[str, str] | None:
        """Return the labels of the workload's pods; None when the workload is itself the pod."""
        return None if self.name_label is None else {self.name_label: workload["metadata"]["name"]}

    def role(self, name: str, pod: str) -> Role | None:
        """Return the role of the pod called `pod` in the workload `name`; None if it is not a pod of the workload."""
        return "main" if pod == name else None

    def ending(self, snapshot: Snapshot) -> Verdict | None:  # noqa: ARG002 - the same
        """Return how the workload has ended; None while it has not, and for one that serves."""
        return None

    def is_serving(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - the same
        """Return whether everything serves in its newest version."""
        return False

    def is_superseded(self, pod: Object, snapshot: Snapshot) -> bool:  # noqa: ARG002 - the same
        """Whether the controller is replacing the pod by a newer one, so that its obstacles do not matter."""
        return False

    def attempts(self, snapshot: Snapshot) -> int | None:  # noqa: ARG002 - the same
        """Return the number of starts of the workload; None before the first, and for a kind that does not end."""
        return None

    def progress(self, snapshot: Snapshot) -> str | None:  # noqa: ARG002 - the same
        """Return the progress of the workload in a few words; None if its pods show enough."""
        return None

    restarts_pods: ClassVar[bool] = False
    """Whether its controller may delete all pods and start new ones, so that pods may never be in a snapshot."""

    def pods_about_to_go(self, snapshot: Snapshot) -> Sequence[Object]:  # noqa: ARG002 - the same
        """Return the pods that will be deleted, and their logs with them, because one of them has failed."""
        return ()

    def unreported_end(self, snapshot: Snapshot) -> tuple[Verdict, datetime | None] | None:  # noqa: ARG002 - the same
        """Return how the workload has ended, and since when, if its operator has not reported it yet."""
        return None

    def stops_its_pods(self, snapshot: Snapshot) -> bool:  # noqa: ARG002 - the same
        """Whether the workload's own controller has stopped its pods: for a deadline, a queue, newer ones."""
        return self.serves

    def replaces_pods(self, snapshot: Snapshot) -> bool:
        """Whether a controller creates another pod in the place of one that has failed, or is being deleted."""
        return self.serves and not is_being_deleted(snapshot.workload)

    end_notice: ClassVar[float] = _SILENCE
    """Seconds after which it is reported that its operator has not noticed its end."""

    unseen_refusal: ClassVar[str] = ""
    """Another explanation if nothing has reacted to the workload, and the user may not see its events."""

    def findings(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield obstacles of the workload that its pods do not show, and the silence of its operator or controller."""
        workload = snapshot.workload
        if is_suspended(workload):
            yield Finding("Suspended", shown(workload), "suspended, by a queue or a user")
            return
        yield from self.obstacles(snapshot)
        is_known = status(workload) or snapshot.pods or snapshot.children or events_about(snapshot.events, workload)
        if not is_known and snapshot.age >= _SILENCE:
            name = self.operator.name if self.operator else f"the {self.name} controller"
            reason, remedy = ("OperatorSilent", self.operator.start) if self.operator else (_SILENT, _START_CONTROLLER)
            message = f"no controller has reacted: {name} is not running"
            unless = self.unseen_refusal if snapshot.unseen else ""
            yield Finding(reason, shown(workload), f"{message}{unless}", remedy)
        end, since = self.unreported_end(snapshot) or (None, None)
        if end and (since is None or snapshot.now - since > timedelta(seconds=self.end_notice)):
            yield from end.findings

    def obstacles(self, snapshot: Snapshot) -> Iterator[Finding]:  # noqa: ARG002 - the same
        """Yield obstacles of a workload that is not suspended."""
        yield from ()

    def warnings(self, snapshot: Snapshot) -> Iterator[Finding]:  # noqa: ARG002 - the same
        """Yield notes on a workload that has ended, beyond the state of its pods."""
        yield from ()

    @abstractmethod
    def main(self, pods: Sequence[Object]) -> Object | None:
        """Return the pod for a user who names none: the newest, when there were several."""

    def workers(self, pods: Sequence[Object]) -> list[Object]:  # noqa: ARG002 - the same
        """Return the pods that compute under the main one, in order of their index."""
        return []

    def indexes(self, workload: Object) -> range:  # noqa: ARG002 - the same
        """Return the indexes for which the workload runs its program, each by a pod for itself; none for most kinds."""
        return range(0)

    def indexed(self, pods: Sequence[Object]) -> Mapping[int, Object]:  # noqa: ARG002 - the same
        """Return the newest pod of each index that has one, in order; none for a workload without indexes."""
        return {}

    def listed(self, pods: Sequence[Object]) -> list[Object]:
        """Return the pods as a person lists them: the main one, then the workers; or the newest pod of each index."""
        if indexed := self.indexed(pods):
            return list(indexed.values())
        main = self.main(pods)
        return [*([main] if main else []), *self.workers(pods)]

    def failures(self, snapshot: Snapshot) -> Iterator[Finding]:
        """Yield the failures of pods, the root cause first: by default that of the main pod."""
        main = self.main(snapshot.pods)
        for pod in [*([main] if main else []), *self.workers(snapshot.pods)]:
            if finding := failure(pod):
                yield finding

    def pod_template(self, workload: Object) -> Object:
        """Return the spec of the pods that compute, as the manifest says: OUTPUT_DIR is in them. Empty without any."""
        return next((pods.spec for pods in pods_of(Manifest(workload)) if pods.computes), {})

    def is_running(self, pods: Sequence[Object]) -> bool:
        """Whether the main pod's main container runs, or has just ended and its controller has yet to say so."""
        pod = self.main(pods)
        state = main_state(pod) if pod else {}
        return bool(state) and "waiting" not in state


class ServingWorkload(Workload):
    """Replicas that serve until they are deleted."""

    serves = True

    unit: ClassVar[str]
    """The word for its replicas."""

    ready_count: ClassVar[str]
    """The field of its status with the number of replicas that serve."""

    @abstractmethod
    def is_rolling(self, workload: Object, updated: int) -> bool:
        """Whether a rollout, of which `updated` replicas are, is not at its end."""

    def progress(self, snapshot: Snapshot) -> str:
        """Return the number of replicas that serve, and the number that the rollout aims at."""
        workload = snapshot.workload
        counts, replicas = status(workload), number_of_pods(workload["spec"].get("replicas"))
        text = f"{counts.get(self.ready_count, 0)} of {replicas} {self.unit} serve"
        updated = int(counts.get("updatedReplicas", 0)) if is_seen(workload) else 0
        return f"{text}, {updated} of {replicas} are up to date" if self.is_rolling(workload, updated) else text


def is_seen(workload: Object) -> bool:
    """Whether the controller has seen the newest spec, so that the status is about that."""
    generation = int(workload["metadata"].get("generation", 0))
    return bool(status(workload)) and int(status(workload).get("observedGeneration", 0)) >= generation


def unready(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield the last failed probe of each running pod."""
    for pod in sorted(snapshot.pods, key=created):
        events = snapshot.about(pod, "Unhealthy")
        is_waiting = is_running(pod) and not true_condition(pod, "Ready") and not is_being_deleted(pod)
        if events and is_waiting:
            yield Finding("Unhealthy", shown(pod), f"it is not ready: {sentence(events[-1])}", blocks=False)


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator at the version that packages are tried with."""

    short: str  # the name in `mlpack operator`
    name: str  # the name in messages
    deployment: str  # the name of its Deployment
    lease: str  # the name of its lease
    lease_seconds: int  # the seconds that its lease holds if it does not say
    version: str  # the tag of the release that packages are for
    url: str  # the address of the release's manifest
    sha256: str  # the manifest's digest
    kind: str  # the kind of workload that it runs
    crd: str  # the CRD of that
    api: str  # group and version that packages ask for
    edit_role: str | None  # the ClusterRole that allows users to edit its objects; None if there is none
    tested: str | None = None  # the tag of the release that packages are tried with; None if it is `version`

    @property
    def start(self) -> Remedy:
        """The fix if it is silent."""
        pods = f"--all-namespaces | grep {self.deployment}"
        return Remedy.of(Action.START_CONTROLLER, controller=self.name, pods=pods)

    def installation(self, kubectl: Sequence[str] = ("kubectl",)) -> str:
        """Return the command that installs it; `kubectl` is the program, with the flags that name the cluster."""
        return shlex.join([*kubectl, "apply", "--server-side", "-f", self.url])


@cache
def kinds() -> Mapping[str, Workload]:
    """Return the Workload of each kind, by kind."""
    return of_each_kind("life")


def operators() -> dict[str, Operator]:
    """Return the operators that workloads need, by the name that `mlpack operator` takes."""
    needed = [kind.operator for kind in kinds().values() if kind.operator]
    return {operator.short: operator for operator in needed}

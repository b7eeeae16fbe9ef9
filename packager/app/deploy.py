"""Deploys a package: checks what is already in the cluster, verifies the overlay, and applies it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.base.errors import VerificationError
from packager.base.paths import argument
from packager.cluster import deploy
from packager.cluster.deploy import DeployState, Situation
from packager.cluster.leftovers import switched_off
from packager.cluster.ownership import key, look_up, refuse_taken, resource
from packager.cluster.removal import remove
from packager.cluster.storage import lasting_storage, lost_with_pods
from packager.kubernetes.objects import shown
from packager.verify import Checks, trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.app.target import Target
    from packager.cluster.ownership import Key
    from packager.kubernetes.objects import Object
    from packager.kubernetes.podsecurity import Level

_REMOVAL_SECONDS = 300
"""Seconds in which a workload that is deleted has to be gone."""


@dataclass(frozen=True, slots=True)
class PreparedDeploy:
    """A deploy that has been checked and may start.

    Attributes:
        target: What is deployed, and where.
        namespace: Where it goes.
        situation: What is in the cluster under the workload's name.
        live: What is there under the names of all that is applied.
        surplus: What an option of an earlier deploy has put beside the workloads, and none does any more.
    """

    target: Target
    namespace: str
    situation: Situation
    live: Mapping[Key, Object]
    surplus: tuple[Object, ...] = ()

    @property
    def per_workload(self) -> tuple[PreparedDeploy, ...]:
        """The same for each of the workloads."""
        return tuple(
            replace(self, target=one, situation=deploy.situation(one.manifests, self.live))
            for one in self.target.per_workload
        )

    def without(self, before: PreparedDeploy, after: PreparedDeploy) -> PreparedDeploy:
        """Return the same without what was deleted between two others."""
        gone = before.live.keys() - after.live.keys()
        return replace(self, live={name: item for name, item in self.live.items() if name not in gone})

    @property
    def is_new(self) -> bool:
        """Whether nothing is there under the workload's name."""
        return self.situation.state is DeployState.ABSENT

    @property
    def is_same(self) -> bool:
        """Whether the workload is there just as it is applied now, and has not ended."""
        return self.situation.state is DeployState.SAME

    @property
    def is_outdated(self) -> bool:
        """Whether the workload is there and different, and takes changes while it runs."""
        return self.situation.state is DeployState.OUTDATED

    @property
    def obstacle(self) -> str | None:
        """Why nothing can be applied before the workload that is there is deleted, in a sentence; None when it can."""
        if self.situation.state not in (DeployState.ENDED, DeployState.CHANGED):
            return None
        by = f", deployed by {self.situation.deployed_by}," if self.situation.deployed_by else ""
        if self.situation.state is DeployState.ENDED:
            return f"{self.target.shown}{by} has already run, and a finished job does not run again"
        return f"{self.target.shown}{by} already exists with a different spec, and its pods cannot be changed in place"

    @property
    def loss(self) -> str | None:
        """That results will go with the pods, and what keeps them; None when they stay, or the workload is there."""
        new = (one for one in self.per_workload if not one.is_same)
        lost = next((lost for one in new if (lost := lost_with_pods(one.target.manifests))), None)
        if lost is None:
            return None
        return f"{lost}; to keep them: {lasting_storage(self.target.package.source)}"

    @property
    def author(self) -> str:
        """Who counts as having deployed it: who has, when it is there just as it is applied now."""
        earlier = self.situation.deployed_by if self.is_same else None
        return earlier or self.target.person


@dataclass(frozen=True, slots=True)
class Deployed:
    """What was applied.

    Attributes:
        workload: As kubectl takes it: `mpijob/name`; of several, all.
        namespace: Where it is.
        digest: Of the package that it was applied from.
        deployed_by: Who has deployed it.
        objects: All that was applied, each as kubectl takes it.
        removed: What was deleted because the overlay does not contain it any more, each as kubectl takes it.
    """

    workload: str
    namespace: str
    digest: str
    deployed_by: str
    objects: tuple[str, ...]
    removed: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "workload": self.workload,
            "namespace": self.namespace,
            "digest": self.digest,
            "deployedBy": self.deployed_by,
            "objects": list(self.objects),
            "removed": list(self.removed),
        }


def check(target: Target, allowed: frozenset[str], level: Level | None) -> None:
    """See that the overlay may be applied, though it makes objects of the kinds `allowed` or needs this `level`.

    Raises:
        VerificationError: It may not, for all the reasons that it names.
    """
    checks = Checks((target.kubectl.program,), level=level, allowed=allowed, namespace=target.kubectl.namespace)
    problems = trust(target.package, target.rendered, checks)
    if problems:
        source = argument(target.package.source)
        message = f"{source} did not pass verification; nothing was applied"
        hint = f"{shlex.join(['mlpack', 'verify', source])} shows the details; --no-verify applies it anyway"
        raise VerificationError(message, hint=hint, problems=problems)


def dry_run(target: Target, strategy: str, *, force_conflicts: bool = False, form: str | None = None) -> str:
    """Return what kubectl says of a dry run: `client` or `server` judges, and it is printed in this form of kubectl's.

    Raises:
        ClusterError: The cluster would refuse it.
    """
    if strategy == "server":
        refuse_taken(look_up(target.kubectl, target.manifests.objects), target.identity)
    flags = [f"--output={form}"] if form else []
    stamped = target.manifests.stamped(target.package.digest, target.person)
    return deploy.apply(target.kubectl, stamped, dry_run=strategy, force_conflicts=force_conflicts, flags=flags)


def prepare(target: Target) -> PreparedDeploy:
    """Find what is in the cluster under the names of the package's objects; change nothing.

    Raises:
        ClusterError: The cluster cannot say, or something of somebody else's has the name of something of the package.
    """
    namespace = target.kubectl.default_namespace()
    live = look_up(target.kubectl, target.manifests.objects)
    refuse_taken(live, target.identity)
    surplus = tuple(switched_off(target.kubectl, target.manifests, target.identity))
    return PreparedDeploy(target, namespace, deploy.situation(target.manifests, live), live, surplus)


def delete_existing(prepared: PreparedDeploy) -> PreparedDeploy:
    """Delete the workload that is there, wait until it is gone, and return the deploy without it.

    Raises:
        TimedOutError: It is not gone yet.
        ClusterError: The server refused.
    """
    workload = prepared.situation.live
    if workload is None:
        return prepared
    remove(prepared.target.kubectl, [workload], timeout=_REMOVAL_SECONDS)
    return replace(prepared, live={name: item for name, item in prepared.live.items() if name != key(workload)})


def apply(prepared: PreparedDeploy, *, force_conflicts: bool = False) -> Deployed:
    """Apply all objects or, as far as a dry run can tell, none; never overwrite objects of others.

    What an option has put beside the workloads that is off now is deleted, once the dry run has succeeded.

    Args:
        prepared: What is deployed, and what it meets.
        force_conflicts: Whether to take over the fields that somebody else has set otherwise.

    Raises:
        ClusterError: The server refused something, or somebody has made an object of the same name meanwhile.
    """
    target, author = prepared.target, prepared.author
    stamped = target.manifests.stamped(target.package.digest, author)
    surplus = prepared.surplus
    deploy.apply_all(
        target.kubectl, target.manifests, stamped, prepared.live, surplus=surplus, force_conflicts=force_conflicts
    )
    removed = tuple(map(shown, surplus))
    return Deployed(target.shown_all, prepared.namespace, target.package.digest, author, _resources(target), removed)


def printed(target: Target, form: str) -> str:
    """Return what was applied, as it is in the cluster, in a form of kubectl's: json, name or yaml."""
    return target.kubectl.run("get", *_resources(target), "--ignore-not-found", f"--output={form}").stdout


def _resources(target: Target) -> tuple[str, ...]:
    return tuple(resource(item) for item in target.manifests.objects)

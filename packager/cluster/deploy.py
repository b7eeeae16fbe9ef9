"""Deploys a package: compares it with the existing objects, verifies the overlay, and applies it."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packager.base.errors import ClusterError, UnreachableError, VerificationError
from packager.base.paths import argument
from packager.cluster import apply as deploy
from packager.cluster.admission import AdmissionChange, object_changes, pod_changes, try_pods
from packager.cluster.apply import DeployState, Situation
from packager.cluster.delete import switched_off
from packager.cluster.hold import held, hold_of
from packager.cluster.ownership import key, look_up, refuse_taken, resource
from packager.cluster.removal import remove
from packager.cluster.results import kept_results, lasting_storage, lost_with_pods
from packager.kubernetes.objects import shown
from packager.verify import Checks, trust

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.cluster.ownership import Key
    from packager.cluster.target import Target
    from packager.kubernetes.objects import Object
    from packager.kubernetes.podsecurity import Level

_REMOVAL_SECONDS = 300
"""The timeout in seconds for the deletion of an existing workload."""


@dataclass(frozen=True, slots=True)
class PreparedDeploy:
    """A deploy that has been checked and may start."""

    target: Target  # the overlay, and the cluster
    namespace: str  # the namespace
    situation: Situation  # the existing workload of the same name, compared with the overlay's
    live: Mapping[Key, Object]  # the existing objects with the names of those to apply
    # the objects of site options that an earlier deploy had switched on and this overlay has not
    surplus: tuple[Object, ...] = ()
    # the objects as the server would store them; empty unless a workload differs from its last deploy
    planned: tuple[Object, ...] = ()

    @property
    def per_workload(self) -> tuple[PreparedDeploy, ...]:
        """A deploy for each workload."""
        return tuple(
            replace(self, target=one, situation=deploy.situation(one.manifests, self.live, self.planned))
            for one in self.target.per_workload
        )

    def without(self, before: PreparedDeploy, after: PreparedDeploy) -> PreparedDeploy:
        """Return the deploy without the objects that were deleted between `before` and `after`."""
        gone = before.live.keys() - after.live.keys()
        return replace(self, live={name: item for name, item in self.live.items() if name not in gone})

    @property
    def is_new(self) -> bool:
        """Whether no workload of this name exists."""
        return self.situation.state is DeployState.ABSENT

    @property
    def is_same(self) -> bool:
        """Whether the workload exists exactly as it would be applied, and has not ended."""
        return self.situation.state is DeployState.SAME

    @property
    def is_outdated(self) -> bool:
        """Whether the workload exists with a different spec and can be changed while it runs."""
        return self.situation.state is DeployState.OUTDATED

    @property
    def obstacle(self) -> str | None:
        """A sentence that says why the existing workload must be deleted first; None if it need not be."""
        if self.situation.state not in (DeployState.ENDED, DeployState.CHANGED):
            return None
        by = f", deployed by {self.situation.deployed_by}," if self.situation.deployed_by else ""
        if self.situation.state is DeployState.ENDED:
            return f"{self.target.shown}{by} has already run, and a finished job does not run again"
        return f"{self.target.shown}{by} already exists with a different spec, and its pods cannot be changed in place"

    @property
    def loss(self) -> str | None:
        """A sentence that says that the results will be lost, and how to keep them; None if they will not be."""
        lost = self.lost_results
        return (
            None
            if lost is None
            else f"{lost}; copy them while it runs, or keep them: {lasting_storage(self.target.package.source)}"
        )

    @property
    def lost_results(self) -> str | None:
        """A sentence that says that the results will be lost with the pods; None if they will not be."""
        new = (one for one in self.per_workload if not one.is_same and not hold_of(one.target.manifests.workload))
        return next((lost for one in new if (lost := lost_with_pods(one.target.manifests))), None)

    @property
    def kept_results(self) -> tuple[str, ...]:
        """The places of results that outlive their pods, each as a sentence."""
        places = (kept_results(one.target.manifests) for one in self.per_workload if not one.is_same)
        return tuple(dict.fromkeys(filter(None, places)))

    @property
    def author(self) -> str:
        """The user to record as its deployer: the earlier one if the workload already exists unchanged."""
        earlier = self.situation.deployed_by if self.is_same else None
        return earlier or self.target.person


@dataclass(frozen=True, slots=True)
class Deployed:
    """The result of a deploy."""

    workload: str  # the workload's name for kubectl, such as `mpijob/name`; all names, if there are several
    namespace: str  # the workload's namespace
    digest: str  # the digest of the package that was applied
    deployed_by: str  # the user who has deployed it
    objects: tuple[str, ...]  # all objects that were applied, each as a name for kubectl
    # the objects that were deleted because the overlay no longer contains them, as names for kubectl
    removed: tuple[str, ...] = ()
    # the changes that the cluster's policies and webhooks have made to the objects
    changes: tuple[AdmissionChange, ...] = ()
    warnings: tuple[str, ...] = ()  # the warnings of the server about the objects


def check(target: Target, allowed: frozenset[str], level: Level | None, expected: str | None = None) -> None:
    """Check that the overlay may be applied.

    Args:
        target: The overlay.
        allowed: The kinds of object, and the variables, that the user has allowed.
        level: The accepted Pod Security level; None for the level that the package was sealed with.
        expected: The digest that the package must have; None for any.

    Raises:
        VerificationError: The overlay may not be applied; the error contains every problem.
    """
    checks = Checks(
        (target.kubectl.program,),
        level=level,
        allowed=allowed,
        namespace=target.kubectl.namespace,
        expected=expected,
    )
    problems = trust(target.package, target.rendered, checks)
    if problems:
        source = argument(target.package.source)
        message = f"{source} did not pass verification; nothing was applied"
        hint = f"{shlex.join(['mlpack', 'verify', source])} shows the details; --no-verify applies it anyway"
        raise VerificationError(message, hint=hint, problems=problems)


def with_hold(target: Target, seconds: float) -> Target:
    """Return the target of a first deploy whose pods are held; see `prepare`."""
    return replace(target, manifests=held(target.manifests, {}, seconds))


def dry_run(target: Target, strategy: str, *, force_conflicts: bool = False, form: str | None = None) -> str:
    """Return the output of kubectl's dry run with the strategy `client` or `server`, in the output form `form`."""
    if strategy == "server":
        refuse_taken(look_up(target.kubectl, target.manifests.objects), target.identity)
    flags = [f"--output={form}"] if form else []
    stamped = target.stamped(target.person)
    return deploy.apply(target.kubectl, stamped, dry_run=strategy, force_conflicts=force_conflicts, flags=flags)


def planned_changes(target: Target, *, force_conflicts: bool = False) -> tuple[AdmissionChange, ...]:
    """Return the changes that the cluster's policies and webhooks would make to the objects and their pods."""
    namespace = target.kubectl.default_namespace()
    kubectl = replace(target.kubectl, namespace=namespace)
    stamped = target.stamped(target.person)
    planned = deploy.planned(kubectl, stamped, force_conflicts=force_conflicts)
    trials = try_pods(kubectl, target.manifests, target.rendered.pods, target.identity, planned)
    sent = [item for item in json.loads(stamped)["items"] if item["kind"] != "Pod"]  # tried as a pod
    return (*object_changes(sent, planned), *pod_changes(trials))


def prepare(target: Target, hold: float = 0) -> PreparedDeploy:
    """Read the existing objects with the names of the package's objects; change nothing.

    Args:
        target: The overlay, and the cluster.
        hold: The most seconds that pods are held until results that go with them are copied; 0 for no hold. It is in
            the target of the result.

    Raises:
        ClusterError: The cluster does not answer, or an object of another owner has the name of one of the package's.
    """
    namespace = target.kubectl.default_namespace()
    live = look_up(target.kubectl, target.manifests.objects)
    refuse_taken(live, target.identity)
    target = replace(target, manifests=held(target.manifests, live, hold))
    surplus = tuple(switched_off(target.kubectl, target.manifests, target.identity))
    planned = _planned(target) if deploy.is_touched(target.manifests, live) else ()
    situation = deploy.situation(target.manifests, live, planned)
    return PreparedDeploy(target, namespace, situation, live, surplus, planned)


def _planned(target: Target) -> tuple[Object, ...]:
    """Return the objects as the server would store them; none if it refuses them, for example after a manual change.

    Raises:
        UnreachableError: The server does not answer.
    """
    try:
        return tuple(deploy.planned(target.kubectl, target.stamped(target.person)))
    except UnreachableError:
        raise
    except ClusterError:
        return ()


def delete_existing(prepared: PreparedDeploy) -> PreparedDeploy:
    """Delete the existing workload, wait until it is deleted, and return the deploy without it.

    Raises:
        TimedOutError: The workload still exists after the timeout.
        ClusterError: The server refused.
    """
    workload = prepared.situation.live
    if workload is None:
        return prepared
    remove(prepared.target.kubectl, [workload], timeout=_REMOVAL_SECONDS)
    return replace(prepared, live={name: item for name, item in prepared.live.items() if name != key(workload)})


def apply(prepared: PreparedDeploy, *, force_conflicts: bool = False) -> Deployed:
    """Apply all objects, or none if a dry run fails; never overwrite objects of other owners.

    Objects of site options that are now off are deleted after the dry run has succeeded.

    Raises:
        ClusterError: The server refused an object, or an object of the same name was created during the deploy.
    """
    target, author = prepared.target, prepared.author
    stamped = target.stamped(author)
    surplus = prepared.surplus
    planned, warnings = deploy.apply_all(
        target.kubectl, target.manifests, stamped, prepared.live, surplus=surplus, force_conflicts=force_conflicts
    )
    return Deployed(
        target.shown_all,
        prepared.namespace,
        target.package.digest,
        author,
        _resources(target),
        tuple(map(shown, surplus)),
        tuple(object_changes(json.loads(stamped)["items"], planned)),
        warnings,
    )


def printed(target: Target, form: str) -> str:
    """Return the applied objects as they are in the cluster, in a form of kubectl's: json, name or yaml."""
    return target.kubectl.run("get", *_resources(target), "--ignore-not-found", f"--output={form}").stdout


def _resources(target: Target) -> tuple[str, ...]:
    return tuple(resource(item) for item in target.manifests.objects)

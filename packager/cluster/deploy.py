"""Deploys a package: compares it with the existing objects, verifies the overlay, and applies it."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

from packager.base.errors import VerificationError
from packager.base.paths import argument
from packager.cluster import apply as deploy
from packager.cluster.apply import DeployState, Situation
from packager.cluster.delete import switched_off
from packager.cluster.hold import held, hold_of
from packager.cluster.ownership import Key, key, look_up, refuse_taken, resource
from packager.cluster.removal import remove
from packager.cluster.results import kept_results, lasting_storage, lost_with_pods
from packager.cluster.target import Target
from packager.kubernetes.objects import Object, shown
from packager.kubernetes.podsecurity import Level
from packager.verify import Checks, trust

_REMOVAL_SECONDS = 300
"""The timeout in seconds for the deletion of an existing workload."""


@dataclass(frozen=True, slots=True)
class PreparedDeploy:
    """A deploy that has been checked and may start."""

    target: Target  # the overlay, and the cluster
    namespace: str
    situations: Mapping[Key, Situation]  # the existing workloads, compared with the overlay's, by those
    live: Mapping[Key, Object]  # the existing objects with the names of those to apply
    # the objects of site options that an earlier deploy had switched on and this overlay has not
    surplus: tuple[Object, ...] = ()

    @property
    def situation(self) -> Situation:
        """The existing workload of the selected one's name."""
        return self.situations[key(self.target.manifests.workload)]

    @property
    def per_workload(self) -> "tuple[PreparedDeploy, ...]":
        """A deploy for each workload."""
        return tuple(replace(self, target=one) for one in self.target.per_workload)

    def without(self, before: "PreparedDeploy", after: "PreparedDeploy") -> "PreparedDeploy":
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
        why = {
            DeployState.ENDED: "has already run, and a finished job does not run again",
            DeployState.CHANGED: "already exists with a different spec, and its pods cannot be changed in place",
        }.get(self.situation.state)
        by = f", deployed by {self.situation.deployed_by}," if self.situation.deployed_by else ""
        return f"{self.target.shown}{by} {why}" if why else None

    @property
    def lost_results(self) -> str | None:
        """A sentence that says that the results will be lost with the pods; None if they will not be."""
        new = (one for one in self.per_workload if not one.is_same and not hold_of(one.target.manifests.workload))
        return next((lost for one in new if (lost := lost_with_pods(one.target.manifests))), None)

    @property
    def loss(self) -> str | None:
        """The sentence of `lost_results`, and how to keep them."""
        how = lasting_storage(self.target.package.source)
        return f"{lost}; copy them while it runs, or keep them: {how}" if (lost := self.lost_results) else None

    @property
    def kept_results(self) -> tuple[str, ...]:
        """The places of results that outlive their pods, each as a sentence."""
        places = (kept_results(one.target.manifests) for one in self.per_workload if not one.is_same)
        return tuple(dict.fromkeys(filter(None, places)))

    @property
    def author(self) -> str:
        """The user to record as its deployer: the earlier one if the workload already exists unchanged."""
        return (self.situation.deployed_by if self.is_same else None) or self.target.person


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
    warnings: tuple[str, ...] = ()  # the warnings of the server about the objects


def check(target: Target, allowed: frozenset[str], level: Level | None, expected: str | None = None) -> None:
    """Check that the overlay may be applied.

    `level` is the accepted Pod Security level; None for the level that the package was sealed with.
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


def prepare(target: Target, hold: float = 0) -> PreparedDeploy:
    """Read the existing objects with the names of the package's objects; change nothing.

    Args:
        target: The overlay, and the cluster.
        hold: The most seconds that pods are held until results that go with them are copied; 0 for no hold. It is in
            the target of the result.
    """
    namespace = target.kubectl.default_namespace()
    live = look_up(target.kubectl, target.manifests.objects)
    refuse_taken(live, target.identity)
    target = replace(target, manifests=held(target.manifests, live, hold))
    surplus = tuple(switched_off(target.kubectl, target.manifests, target.identity))
    stamped = target.stamped(target.person)
    situations = {
        key(one.workload): deploy.situation(target.kubectl, one, live, stamped) for one in target.manifests.per_workload
    }
    return PreparedDeploy(target, namespace, situations, live, surplus)


def delete_existing(prepared: PreparedDeploy) -> PreparedDeploy:
    """Delete the existing workload, wait until it is deleted, and return the deploy without it."""
    workload = prepared.situation.live
    if workload is None:
        return prepared
    remove(prepared.target.kubectl, [workload], timeout=_REMOVAL_SECONDS)
    return replace(prepared, live={name: item for name, item in prepared.live.items() if name != key(workload)})


def apply(prepared: PreparedDeploy, *, force_conflicts: bool = False) -> Deployed:
    """Apply all objects, or none if a dry run fails; never overwrite objects of other owners.

    Objects of site options that are now off are deleted after the dry run has succeeded.
    """
    target, author, surplus = prepared.target, prepared.author, prepared.surplus
    stamped = target.stamped(author)
    warnings = deploy.apply_all(
        target.kubectl, target.manifests, stamped, prepared.live, surplus=surplus, force_conflicts=force_conflicts
    )
    return Deployed(
        target.shown_all,
        prepared.namespace,
        target.package.digest,
        author,
        _resources(target),
        tuple(map(shown, surplus)),
        warnings,
    )


def printed(target: Target, form: str) -> str:
    """Return the applied objects as they are in the cluster, in a form of kubectl's: json, name or yaml."""
    return target.kubectl.run("get", *_resources(target), "--ignore-not-found", f"--output={form}").stdout


def _resources(target: Target) -> tuple[str, ...]:
    return tuple(resource(item) for item in target.manifests.objects)

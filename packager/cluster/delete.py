"""Deletes a package from a cluster: surveys the existing objects, then deletes only those of the package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager.cluster import removal
from packager.cluster.observe import released_pods
from packager.cluster.ownership import described
from packager.kubernetes.objects import name, shown
from packager.workloads.kinds import kinds

if TYPE_CHECKING:
    from packager.cluster.removal import Survey
    from packager.cluster.target import Target
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class PreparedDelete:
    """A delete that has been checked and may start."""

    target: Target  # the overlay, and the cluster
    survey: Survey  # the existing objects with the names of the package's objects

    @property
    def remark(self) -> str | None:
        """A sentence for a question to the user, if another person or build has deployed a part; else None."""
        remarks = (self.target.identity.remark(item) for item in (*self.survey.workloads, *self.survey.rest))
        return next((remark for remark in remarks if remark), None)

    @property
    def kept(self) -> tuple[str, ...]:
        """The objects that stay so that the results are kept, each as a name for kubectl."""
        return tuple(shown(item) for item in self.survey.kept)


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result of deleting a package from a cluster."""

    workload: str  # the workload's name for kubectl, such as `mpijob/name`; all names, if there are several
    objects: tuple[str, ...]  # the objects that were deleted, each as a name for kubectl
    kept: tuple[str, ...]  # the objects that stay so that the results are kept
    # the objects that were left because they do not belong to this package alone, and their owners
    others: tuple[tuple[Object, str], ...]
    is_gone: bool  # whether the delete waited until all objects were gone
    missing: tuple[str, ...] = ()  # the workloads that did not exist, each as a name for kubectl
    # the pods that were left because their controllers have released them, each as a name for kubectl
    released: tuple[str, ...] = ()

    @property
    def left(self) -> str:
        """The objects that were left, and their owners, as a list for a sentence."""
        return described(self.others)

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "workload": self.workload,
            "objects": list(self.objects),
            "kept": list(self.kept),
            "others": [{"object": shown(item), "owner": owner} for item, owner in self.others],
            "gone": self.is_gone,
            "missing": list(self.missing),
            "released": list(self.released),
        }


def prepare(target: Target, *, keep_results: bool = False) -> PreparedDelete:
    """Return the objects that a delete would remove and those that it would keep; change nothing.

    Raises:
        ClusterError: The cluster does not answer.
    """
    return PreparedDelete(
        target, removal.survey(target.kubectl, target.manifests, target.identity, keep_claims=keep_results)
    )


def planned(prepared: PreparedDelete) -> Deleted:
    """Return the result of a delete, without deleting anything; `released` is not known before."""
    return _result(prepared, is_gone=False)


def delete(prepared: PreparedDelete, *, timeout: float | None) -> Deleted:
    """Delete the package's objects and those that controllers made for it; an object already gone is no error.

    Args:
        prepared: The prepared delete.
        timeout: Seconds to wait until all objects are deleted; None not to wait.
    """
    target, survey = prepared.target, prepared.survey
    # The workloads first: their pods must not lose their ConfigMaps while they run.
    for items in survey.workloads, survey.rest:
        removal.remove(target.kubectl, items, timeout=timeout)
    for workload in survey.workloads if timeout is not None else ():
        removal.await_stragglers(target.kubectl, kinds()[workload["kind"]], workload, timeout=timeout or 0)
    released = [
        shown(pod)
        for workload in survey.workloads
        for pod in released_pods(target.kubectl, kinds()[workload["kind"]], name(workload))
    ]
    return _result(prepared, is_gone=timeout is not None, released=tuple(released))


def _result(prepared: PreparedDelete, *, is_gone: bool, released: tuple[str, ...] = ()) -> Deleted:
    target, survey = prepared.target, prepared.survey
    objects = tuple(shown(item) for item in (*survey.workloads, *survey.rest))
    existing = {shown(item) for item in (*survey.workloads, *(item for item, _ in survey.others))}
    missing = tuple(workload.shown for workload in target.per_workload if workload.shown not in existing)
    return Deleted(target.shown_all, objects, prepared.kept, survey.others, is_gone, missing, released)

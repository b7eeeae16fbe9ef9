"""Finds the changes that a cluster's policies and webhooks make in created objects, and which of them do harm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.cluster.mutations import mutations
from packager.cluster.ownership import MANAGED_BY, PACKAGE, key
from packager.kubernetes.objects import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from packager.cluster.differences import Difference
    from packager.cluster.dry_run import Trial
    from packager.cluster.ownership import Key
    from packager.kubernetes.objects import Object

_LABEL = re.compile(r"(?:.+\.)?metadata\.labels\.(.+)")
_CONTAINER = re.compile(r"(?:.+\.)?(?:initContainers|containers)\[[^]]+\](\.image)?")

_OURS = frozenset({MANAGED_BY, PACKAGE})
"""The labels by which mlpack finds the objects of a package."""


@dataclass(frozen=True, slots=True)
class AdmissionChange:
    """A value that admission changes.

    Attributes:
        whose: The changed object or pods: `mpijob/x`, `the pods of worker`.
        difference: The value before and after.
        harm: Why the change makes the package fail or hang; None if it does not.
    """

    whose: str
    difference: Difference
    harm: str | None = None

    def __str__(self) -> str:
        return f"the cluster changes {self.whose}: {self.difference}{f'; {self.harm}' if self.harm else ''}"


def object_changes(
    sent: Iterable[Object], planned: Iterable[Object], live: Collection[Key] | Mapping[Key, Object]
) -> Iterator[AdmissionChange]:
    """Yield the changes that admission makes in objects.

    Args:
        sent: The objects that are applied.
        planned: The server's answers to a dry run.
        live: The existing objects. Only changed values count in them, since others may have added fields.
    """
    before = {key(item): item for item in sent}
    for item in planned:
        for difference in mutations(before[key(item)], item) if key(item) in before else ():
            if key(item) not in live or None not in (difference.before, difference.after):
                yield AdmissionChange(shown(item), difference, _harm(difference, _OURS))


def pod_changes(trials: Sequence[Trial]) -> Iterator[AdmissionChange]:
    """Yield the changes that admission makes in pods; the same change in several roles is yielded once."""
    differences: dict[tuple[str, str | None], Difference] = {}
    roles: dict[tuple[str, str | None], list[str]] = {}
    for trial in trials:
        for difference in mutations(trial.sent, trial.answer) if trial.answer else ():
            change = str(difference), _harm(difference, trial.needed_labels | _OURS)
            differences[change] = difference
            roles.setdefault(change, []).append(trial.role)
    for change, difference in differences.items():
        yield AdmissionChange(f"the pods of {' and '.join(roles[change])}", difference, change[1])


def _harm(difference: Difference, needed_labels: Collection[str]) -> str | None:
    """Return why a change makes the package fail or hang; None if it does not, or if another check judges it."""
    if difference.before is None:
        return None
    if (label := _LABEL.fullmatch(difference.path)) and label[1] in needed_labels:
        return "the pods are found by this label"
    if container := _CONTAINER.fullmatch(difference.path):
        if container[1] is None:
            return "the package needs this container"
        is_mirror = _in_registry(str(difference.before)) == _in_registry(str(difference.after))
        return None if is_mirror else "this is not the package's image"
    if difference.path == "spec.restartPolicy" and difference.after == "Always":
        return "pods that are started again and again do not end"
    return None


def _in_registry(image: str) -> str:
    """Return an image's name without its registry, which is the same in a mirror."""
    registry, slash, path = image.partition("/")
    return path if slash and ("." in registry or ":" in registry or registry == "localhost") else image

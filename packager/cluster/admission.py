"""Lists the fields that a cluster's policies and webhooks change in created objects; additions are not listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.cluster.differences import Difference, differences
from packager.cluster.ownership import key
from packager.kubernetes.objects import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.cluster.dry_run import Trial
    from packager.kubernetes.objects import Object


@dataclass(frozen=True, slots=True)
class AdmissionChange:
    """A value of a package that admission changes.

    Attributes:
        whose: The changed object or pods: `mpijob/x`, `the pods of worker`.
        difference: The value before and after.
    """

    whose: str
    difference: Difference

    def __str__(self) -> str:
        return f"the cluster changes {self.whose}: {self.difference}"


def object_changes(sent: Iterable[Object], planned: Iterable[Object]) -> Iterator[AdmissionChange]:
    """Yield the changes that admission makes in objects.

    Args:
        sent: The objects that are applied.
        planned: The server's answers to a dry run.
    """
    before = {key(item): item for item in sent}
    for item in planned:
        for difference in _changes(before[key(item)], item) if key(item) in before else ():
            yield AdmissionChange(shown(item), difference)


def pod_changes(trials: Iterable[Trial]) -> Iterator[AdmissionChange]:
    """Yield the changes that admission makes in pods; the same change in several roles is yielded once."""
    changes: dict[str, tuple[Difference, list[str]]] = {}
    for trial in trials:
        for difference in _changes(trial.sent, trial.answer) if trial.answer else ():
            changes.setdefault(str(difference), (difference, []))[1].append(trial.role)
    for difference, roles in changes.values():
        yield AdmissionChange(f"the pods of {' and '.join(roles)}", difference)


def _changes(sent: Object, answer: Object) -> Iterator[Difference]:
    for difference in differences(sent, answer):
        yield Difference(difference.path, before=difference.after, after=difference.before)

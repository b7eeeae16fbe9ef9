"""Checks whether the cluster's policies admit the pods, and which changes policies and webhooks make in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.cluster.admission import pod_changes
from packager.cluster.doctor.case import fails, note, ok
from packager.kubectl import sentences
from packager.kubectl.refusals import refusal, was_evaluated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.cluster.admission import AdmissionChange
    from packager.cluster.doctor.case import Case, CheckResult

_POLICIES = "admissionregistration.k8s.io/v1"
_MUTATORS = ("mutatingwebhookconfigurations", "limitranges")
"""The resources that may change objects, in every cluster."""


def admission(case: Case) -> Iterator[CheckResult]:
    """Check that the cluster admits each group of pods, and report the changes that it makes in them.

    Refusals because of the namespace, its quotas and missing references are left to the checks of these.
    """
    refused: dict[tuple[str, str | None], list[str]] = {}
    is_reported_elsewhere = False
    for trial in case.trials:
        if (error := trial.error) is None:
            continue
        if not was_evaluated(error):
            raise error
        finding = refusal("", str(error))
        if _is_reported_elsewhere(str(error), finding.reason if finding else None):
            is_reported_elsewhere = True
            continue
        message = sentences.TRIAL_POD_PREFIX.sub("", finding.message if finding else str(error))
        refused.setdefault((message, finding.hint if finding else None), []).append(trial.role)
    for (message, hint), roles in refused.items():
        yield fails("admission", f"the pods of {' and '.join(roles)} are rejected: {message}", hint)
    if not refused and not is_reported_elsewhere:
        number = len(case.trials)
        yield ok("admission", "the pods are admitted" if number == 1 else f"{number} kinds of pod are admitted")
    yield from reported(case, "admission", pod_changes(case.trials))


def reported(case: Case, check: str, changes: Iterable[AdmissionChange]) -> Iterator[CheckResult]:
    """Yield a result for each change by admission; a harmless change is a note."""
    for change in changes:
        has_policies = case.resource(_POLICIES, "MutatingAdmissionPolicy")
        resources = [*_MUTATORS, *(["mutatingadmissionpolicies"] if has_policies else [])]
        yield (fails if change.harm else note)(check, str(change), f"kubectl get {','.join(resources)}")


def _is_reported_elsewhere(error: str, reason: str | None) -> bool:
    return (
        (reason == "PodSecurity")
        or (reason == "QuotaExceeded" and "must specify" not in error)
        or bool(sentences.PREREQUISITE_MISSING.search(error))
        or bool(sentences.NO_RIGHT_TO_CREATE.search(error))  # the operator creates the pods, not the user
    )

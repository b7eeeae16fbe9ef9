"""Checks whether policies admit the pods, and what policies and webhooks change. Tests: cli/test_doctor.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import DeniedError, NotEvaluatedError
from packager.cluster.differences import pod_changes
from packager.cluster.doctor.case import fails, note, ok
from packager.kubernetes.kubectl.refusals import PREREQUISITE
from packager.kubernetes.remedy import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.base.errors import MlpackError
    from packager.cluster.differences import AdmissionChange
    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.verdict import Finding

_POLICIES = "admissionregistration.k8s.io"
_MUTATORS = ("mutatingwebhookconfigurations", "limitranges")
"""The resources that may change objects, in every cluster."""


def admission(case: Case) -> Iterator[CheckResult]:
    """Check that the cluster admits each group of pods, and list the fields that it changes in them.

    Refusals because of the namespace, its quotas and missing references are left to the checks of these.
    """
    refused: dict[tuple[str, str | None], list[str]] = {}
    is_reported_elsewhere = False
    for trial in case.trials:
        if (error := trial.error) is None:
            continue
        if isinstance(error, NotEvaluatedError) or trial.refusal is None:
            raise error
        if _is_reported_elsewhere(error, trial.refusal):
            is_reported_elsewhere = True
            continue
        refused.setdefault((trial.refusal.message, trial.refusal.hint), []).append(trial.role)
    for (message, hint), roles in refused.items():
        yield fails("admission", f"the pods of {' and '.join(roles)} are rejected: {message}", hint)
    if not refused and not is_reported_elsewhere:
        number = len(case.trials)
        yield ok("admission", "the pods are admitted" if number == 1 else f"{number} kinds of pod are admitted")
    yield from reported(case, "admission", pod_changes(case.trials))


def reported(case: Case, check: str, changes: Iterable[AdmissionChange]) -> Iterator[CheckResult]:
    """Yield a note for each field that admission changes."""
    for change in changes:
        has_policies = any(
            case.resource(f"{_POLICIES}/{version}", "MutatingAdmissionPolicy") for version in case.versions(_POLICIES)
        )
        resources = [*_MUTATORS, *(["mutatingadmissionpolicies"] if has_policies else [])]
        yield note(check, str(change), f"kubectl get {','.join(resources)}")


def _is_reported_elsewhere(error: MlpackError, refusal: Finding) -> bool:
    needs_requests = refusal.remedy is not None and refusal.remedy.action is Action.SET_REQUESTS
    return (
        refusal.reason in ("PodSecurity", PREREQUISITE)
        or (refusal.reason == "QuotaExceeded" and not needs_requests)
        or (isinstance(error, DeniedError) and error.verb == "create")  # the operator creates the pods, not the user
    )

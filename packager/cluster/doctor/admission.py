"""Checks with dry runs whether the cluster admits the objects and their pods, and what its policies change.

Tests: cli/test_doctor.py.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.base.errors import DeniedError, MissingNamespaceError, NotEvaluatedError, NotServedError
from packager.cluster.admission import object_changes, pod_changes
from packager.cluster.doctor.case import fails, note, ok
from packager.kubernetes.kubectl.refusals import PREREQUISITE
from packager.kubernetes.remedy import Action

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from packager.base.errors import MlpackError
    from packager.cluster.admission import AdmissionChange
    from packager.cluster.doctor.case import Case, CheckResult
    from packager.kubernetes.verdict import Finding

_POLICIES = "admissionregistration.k8s.io"


def admission(case: Case) -> Iterator[CheckResult]:
    """Check that the cluster admits each group of pods, and list the fields that it changes in them.

    Refusals because of the namespace, its quotas and missing references are left to the checks of these.
    """
    refused: dict[tuple[str, str | None], list[str]] = {}
    failed = [trial for trial in case.trials if trial.error is not None]
    for trial in failed:
        assert trial.error is not None
        if isinstance(trial.error, NotEvaluatedError) or trial.refusal is None:
            raise trial.error
        if not _is_reported_elsewhere(trial.error, trial.refusal):
            refused.setdefault((trial.refusal.message, trial.refusal.hint), []).append(trial.role)
    for (message, hint), roles in refused.items():
        yield fails("admission", f"the pods of {' and '.join(roles)} are rejected: {message}", hint)
    if not failed:
        number = len(case.trials)
        yield ok("admission", "the pods are admitted" if number == 1 else f"{number} kinds of pod are admitted")
    yield from _notes(case, "admission", pod_changes(case.trials))


def dry_run(case: Case) -> Iterator[CheckResult]:
    """Check with a dry run that the server accepts every object, and report the changes that its policies make."""
    planned, error = case.plan
    if error is None:
        yield ok("apply", f"the server accepts all {len(case.manifests.objects)} objects (dry run)")
        sent = [item for item in json.loads(case.stamped)["items"] if item["kind"] != "Pod"]  # tried as a pod
        yield from _notes(case, "apply", object_changes(sent, planned))
        return
    if isinstance(error, NotEvaluatedError):
        raise error
    is_taken = not all(case.identity.owns(item) for item in case.live.values())
    is_reported_elsewhere = is_taken or isinstance(error, MissingNamespaceError | NotServedError)
    if not is_reported_elsewhere and not (isinstance(error, DeniedError) and error.verb == "patch"):
        yield fails("apply", str(error), error.hint)


def _notes(case: Case, check: str, changes: Iterable[AdmissionChange]) -> Iterator[CheckResult]:
    """Yield a note for each field that admission changes."""
    for change in changes:
        apis = [f"{_POLICIES}/{version}" for version in case.versions(_POLICIES)]
        policies = (
            ",mutatingadmissionpolicies" if any(case.resource(a, "MutatingAdmissionPolicy") for a in apis) else ""
        )
        yield note(check, str(change), f"kubectl get mutatingwebhookconfigurations,limitranges{policies}")


def _is_reported_elsewhere(error: MlpackError, refusal: Finding) -> bool:
    needs_requests = refusal.remedy is not None and refusal.remedy.action is Action.SET_REQUESTS
    return (
        refusal.reason in ("PodSecurity", PREREQUISITE)
        or (refusal.reason == "QuotaExceeded" and not needs_requests)
        or (isinstance(error, DeniedError) and error.verb == "create")  # the operator creates the pods, not the user
    )

"""Tests of the explanation of a cluster's refusals, with messages of real servers."""

from __future__ import annotations

import pytest

from packager.kubernetes.kubectl.refusals import explained_error, refusal
from packager.kubernetes.verdict import NEVER

FORBIDDEN = 'pods "x" is forbidden: '


@pytest.mark.parametrize(
    ("response", "reason", "message", "hint", "final_after"),
    [
        (
            FORBIDDEN + "ValidatingAdmissionPolicy 'no-root' with binding 'here' denied request: be somebody",
            "PolicyDenied",
            "the policy no-root of the cluster denies it: be somebody",
            "change the overlay to meet it, or ask its owner: kubectl get validatingadmissionpolicy no-root -o yaml",
            0,
        ),
        (
            'admission webhook "gate.example" denied the request: no label team',
            "PolicyDenied",
            'admission webhook "gate.example" denied the request: no label team',
            "the policy gate.example denied this: change the overlay to meet it, or ask its owner",
            0,
        ),
        (
            'Internal error occurred: failed calling webhook "gate.example": failed to call webhook: refused',
            "WebhookFailed",
            'Internal error occurred: failed calling webhook "gate.example": failed to call webhook: refused',
            "the webhook gate.example has to answer before anything is created: ask who runs it (kubectl get pods -A)",
            NEVER,
        ),
        (
            FORBIDDEN + "maximum memory usage per Container is 1Mi, but limit is 64Mi",
            "LimitRange",
            FORBIDDEN + "maximum memory usage per Container is 1Mi, but limit is 64Mi",
            "kubectl get limitrange -o yaml shows what the namespace allows: keep the overlay within it",
            0,
        ),
        (
            FORBIDDEN + "cpu max limit to request ratio per Pod is 2, but provided ratio is 10.000000",
            "LimitRange",
            FORBIDDEN + "cpu max limit to request ratio per Pod is 2, but provided ratio is 10.000000",
            "kubectl get limitrange -o yaml shows what the namespace allows: keep the overlay within it",
            0,
        ),
        (
            FORBIDDEN + 'error looking up service account team/trainer: serviceaccount "trainer" not found',
            "NoServiceAccount",
            FORBIDDEN + 'error looking up service account team/trainer: serviceaccount "trainer" not found',
            "kubectl create serviceaccount trainer",
            15,
        ),
        (
            FORBIDDEN + "no PriorityClass with name high was found",
            "NoPriorityClass",
            FORBIDDEN + "no PriorityClass with name high was found",
            "kubectl get priorityclasses lists the existing ones",
            0,
        ),
        (
            FORBIDDEN + 'pod rejected: RuntimeClass "gvisor" not found',
            "NoRuntimeClass",
            FORBIDDEN + 'pod rejected: RuntimeClass "gvisor" not found',
            "kubectl get runtimeclasses lists the existing ones",
            0,
        ),
        (
            FORBIDDEN + "unable to create new content in namespace team because it is being terminated",
            "NamespaceTerminating",
            FORBIDDEN + "unable to create new content in namespace team because it is being terminated",
            "wait until the namespace team is deleted and create it again, or use another one (-n)",
            0,
        ),
        (
            'pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "team"',
            "Forbidden",
            'pods is forbidden: User "me" cannot create resource "pods" in API group "" in the namespace "team"',
            "this needs permission to create pods: ask the cluster administrator",
            15,
        ),
        (
            FORBIDDEN + "for reasons of its own",
            "Forbidden",
            FORBIDDEN + "for reasons of its own",
            "ask the cluster administrator",
            15,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_refusal_has_reason_message_and_hint(
    response: str, reason: str, message: str, hint: str, final_after: float
) -> None:
    finding = refusal("job/x", f"Error creating: {response}")
    assert finding is not None
    assert (finding.reason, finding.message, finding.hint, finding.final_after) == (reason, message, hint, final_after)
    error = explained_error(f"Error from server (Forbidden): {response}\n")
    assert (str(error), error.hint, error.exit_code) == (f"the cluster rejects it: {message}", hint, 7)

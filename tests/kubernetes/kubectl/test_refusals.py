"""Tests of the explanation of a cluster's refusals, with messages of real servers."""

from __future__ import annotations

import pytest

from packager.kubernetes.kubectl.refusals import explained_error, refusal
from packager.kubernetes.verdict import NEVER

FORBIDDEN = 'pods "x" is forbidden: '


POLICY = "ValidatingAdmissionPolicy 'no-root' with binding 'here' denied request: be somebody"
WEBHOOK = 'failed calling webhook "gate.example": failed to call webhook: refused'
LIMITS = "kubectl get limitrange -o yaml shows what the namespace allows: keep the overlay within it"
RIGHTS = 'User "me" cannot create resource "pods" in API group "" in the namespace "team"'


@pytest.mark.parametrize(
    ("response", "reason", "hint", "final_after"),
    [
        (
            'admission webhook "gate.example" denied the request: no label team',
            "PolicyDenied",
            "the policy gate.example denied this: change the overlay to meet it, or ask its owner",
            0,
        ),
        (
            f"Internal error occurred: {WEBHOOK}",
            "WebhookFailed",
            "the webhook gate.example has to answer before anything is created: ask who runs it (kubectl get pods -A)",
            NEVER,
        ),
        (f"{FORBIDDEN}maximum memory usage per Container is 1Mi, but limit is 64Mi", "LimitRange", LIMITS, 0),
        (f"{FORBIDDEN}cpu max limit to request ratio per Pod is 2, but provided ratio is 10", "LimitRange", LIMITS, 0),
        (
            f'{FORBIDDEN}error looking up service account team/trainer: serviceaccount "trainer" not found',
            "NoServiceAccount",
            "kubectl create serviceaccount trainer",
            15,
        ),
        (
            f"{FORBIDDEN}no PriorityClass with name high was found",
            "NoPriorityClass",
            "kubectl get priorityclasses lists the existing ones",
            0,
        ),
        (
            f'{FORBIDDEN}pod rejected: RuntimeClass "gvisor" not found',
            "NoRuntimeClass",
            "kubectl get runtimeclasses lists the existing ones",
            0,
        ),
        (
            f"{FORBIDDEN}unable to create new content in namespace team because it is being terminated",
            "NamespaceTerminating",
            "wait until the namespace team is deleted and create it again, or use another one (-n)",
            0,
        ),
        (
            f"pods is forbidden: {RIGHTS}",
            "Forbidden",
            "this needs permission to create pods: ask the cluster administrator",
            15,
        ),
        (f"{FORBIDDEN}for reasons of its own", "Forbidden", "ask the cluster administrator", 15),
        (
            f"{FORBIDDEN}failed quota: strict: must specify limits.memory for: main",
            "QuotaExceeded",
            "set what the quota counts in each container",
            0,
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isalpha() else "",
)
def test_refusal_has_reason_and_hint(response: str, reason: str, hint: str, final_after: float) -> None:
    finding = refusal("job/x", f"Error creating: {response}")
    assert finding is not None
    assert (finding.reason, finding.message, finding.hint, finding.final_after) == (reason, response, hint, final_after)
    error = explained_error(f"Error from server (Forbidden): {response}\n")
    assert (str(error), error.hint, error.exit_code) == (f"the cluster rejects it: {response}", hint, 7)


def test_policy_of_the_cluster_is_named() -> None:
    finding = refusal("job/x", f"Error creating: {FORBIDDEN}{POLICY}")
    assert finding is not None
    assert finding.message == "the policy no-root of the cluster denies it: be somebody"
    hint = "change the overlay to meet it, or ask its owner: kubectl get validatingadmissionpolicy no-root -o yaml"
    assert finding.hint == hint

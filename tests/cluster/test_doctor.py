"""Tests of the use case `packager.cluster.doctor`."""

from __future__ import annotations

from packager.cluster.doctor import exit_code
from packager.cluster.doctor.case import CheckResult, CheckState

OK, FAILS = (
    CheckResult("names", CheckState.OK, "free"),
    CheckResult("nodes", CheckState.FAILS, "too small", "kubectl get nodes"),
)
UNKNOWN = CheckResult("image", CheckState.UNKNOWN, "no answer")


def test_exit_code_prefers_failures_to_unknown_checks() -> None:
    assert (exit_code([OK]), exit_code([OK, UNKNOWN]), exit_code([FAILS, UNKNOWN, OK])) == (0, 6, 1)

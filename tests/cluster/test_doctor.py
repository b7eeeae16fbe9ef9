"""Tests of the use case `packager.cluster.doctor`."""

from __future__ import annotations

from packager.cluster.doctor import Examination
from packager.cluster.doctor.case import CheckResult, CheckState

OK, FAILS = (
    CheckResult("names", CheckState.OK, "free"),
    CheckResult("nodes", CheckState.FAILS, "too small", "kubectl get nodes"),
)
UNKNOWN = CheckResult("image", CheckState.UNKNOWN, "no answer")


def test_examination_exit_code_prefers_failures_to_unknown_checks() -> None:
    assert Examination((OK,)).exit_code == 0
    assert Examination((OK, UNKNOWN)).exit_code == 6
    examination = Examination((FAILS, UNKNOWN, OK))
    assert (examination.failures, examination.exit_code) == (1, 1)
    assert examination.as_json() == {
        "findings": (
            {"check": "nodes", "state": "fails", "message": "too small", "fix": "kubectl get nodes"},
            {"check": "image", "state": "unknown", "message": "no answer", "fix": None},
            {"check": "names", "state": "ok", "message": "free", "fix": None},
        ),
        "exit_code": 1,
    }

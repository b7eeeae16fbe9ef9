"""Tests of the use case `packager.app.doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.app.doctor import Examination, doctor
from packager.cluster.doctor.case import CheckResult, CheckState
from tests.fake_cluster import healthy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packager.app.target import Target
    from tests.life import Life

OK, FAILS = (
    CheckResult("names", CheckState.OK, "free"),
    CheckResult("nodes", CheckState.FAILS, "too small", "kubectl get nodes"),
)
UNKNOWN = CheckResult("image", CheckState.UNKNOWN, "no answer")


def test_doctor_yields_findings_of_each_check(target: Target, life: Life) -> None:
    life.objects = healthy().objects
    examination = Examination(tuple(doctor(target, frozenset(), None)))
    assert (examination.failures, examination.exit_code) == (0, 0)
    assert {finding.check for finding in examination.findings} >= {"kubectl", "namespace", "names", "permissions"}


def test_doctor_fails_for_package_that_deploy_refuses(
    opened: Callable[..., Target], life: Life, tmp_path: Path
) -> None:
    (tmp_path / "hello-mpi/quickstart/scripts/hello.sh").write_text("#!/bin/sh\n")
    target = opened()
    life.objects = healthy().objects
    first = next(doctor(target, frozenset(), None))
    assert (first.check, first.state) == ("package", CheckState.FAILS)


def test_examination_exit_code_prefers_failures_to_unknown_checks() -> None:
    assert Examination((OK,)).exit_code == 0
    assert Examination((OK, UNKNOWN)).exit_code == 6
    examination = Examination((FAILS, UNKNOWN, OK))
    assert (examination.failures, examination.exit_code) == (1, 1)
    assert examination.as_json() == {
        "findings": [
            {"check": "nodes", "state": "fails", "message": "too small", "fix": "kubectl get nodes"},
            {"check": "image", "state": "unknown", "message": "no answer", "fix": None},
            {"check": "names", "state": "ok", "message": "free", "fix": None},
        ],
        "exit_code": 1,
    }

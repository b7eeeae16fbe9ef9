"""Tests of the use case `packager.verify.command`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from packager.verify import Checks
from packager.verify.command import kubernetes_versions, verify

if TYPE_CHECKING:
    from pathlib import Path


def test_verify_returns_valid_verdict_as_value(package: Path, kubectl: Path) -> None:
    verdict = verify(package, Checks((str(kubectl),), kubernetes_versions()[-1:]))
    assert (verdict.is_valid, verdict.exit_code, verdict.problems) == (True, 0, ())
    content = json.loads(json.dumps(verdict.as_json()))
    assert {key: content[key] for key in ("valid", "exit_code", "package", "problems", "unchecked")} == {
        "valid": True,
        "exit_code": 0,
        "package": "hello-mpi",
        "problems": [],
        "unchecked": [],
    }


def test_verify_of_unchecked_package_is_neither_valid_nor_invalid(package: Path) -> None:
    verdict = verify(package, Checks(("no-such-kubectl",), kubernetes_versions()[-1:]))
    assert (verdict.is_valid, verdict.exit_code) == (None, 6)
    assert verdict.as_json()["unchecked"] != ()


def test_verify_exit_code_prefers_problems_to_unchecked_parts(package: Path) -> None:
    (package / "quickstart/scripts/hello.sh").write_text("#!/bin/sh\n")
    verdict = verify(package, Checks(("no-such-kubectl",), kubernetes_versions()[-1:]))
    assert (verdict.is_valid, verdict.exit_code) == (False, 5)
    assert [problem["message"] for problem in verdict.as_json()["problems"]] == [
        problem.message for problem in verdict.problems
    ]

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.app.lint import Lint, lint

if TYPE_CHECKING:
    from pathlib import Path


def test_good_specs(specs: Path) -> None:
    assert lint(["trial"], [specs], tell=pytest.fail) == Lint(())
    assert Lint(()).as_json() == {"valid": True, "exit_code": 0, "problems": []}


def test_all_problems_are_returned_as_data(specs: Path) -> None:
    answer = lint(["demo", "wrong"], [specs], tell=pytest.fail)
    [problem] = answer.problems
    assert (problem.file, answer.exit_code) == (str(specs / "wrong/spec.yaml"), 3)
    assert "Pood" in problem.message
    assert answer.as_json() == {"valid": False, "exit_code": 3, "problems": [problem.as_json()]}

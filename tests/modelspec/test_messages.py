"""The messages about a wrong spec: every problem of it, in one run, each with its place.

A case is a spec, or changes the demo model by `old => new` and by lines at its end. Without problems it is valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base.errors import SpecError
from packager.modelspec.load import load
from packager.modelspec.settings import parse_setting
from tests import demo

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_golden.plugin import GoldenTestFixture


def problems(folder: Path, spec: str, settings: list[str] | None = None) -> list[str]:
    path = demo.write(folder, spec)
    try:
        load(path, [parse_setting(setting) for setting in settings or ()])
    except SpecError as error:
        return [str(problem).removeprefix(f"{folder}/") for problem in error.problems] or [str(error)]
    return []


@pytest.mark.golden_test("../golden/spec/*.yml")
def test_wrong_specs_have_expected_problems(golden: GoldenTestFixture, tmp_path: Path) -> None:
    specs = {case: spec if isinstance(spec, str) else demo.changed(*spec) for case, spec in golden["cases"].items()}
    by_case = {case: problems(tmp_path, spec) for case, spec in specs.items()}
    assert by_case == golden.out["problems"]


@pytest.mark.golden_test("../golden/settings.yml")
def test_wrong_settings_have_expected_problems(golden: GoldenTestFixture, tmp_path: Path) -> None:
    by_case = {case: problems(tmp_path, demo.SPEC, settings) for case, settings in golden["cases"].items()}
    assert by_case == golden.out["problems"]

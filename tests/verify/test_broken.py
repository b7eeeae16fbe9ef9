"""Sixty-one broken packages: each has a finding that points at the line with the fault."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.package.opened import opened
from packager.verify import Checks, verify
from tests.broken import FAULTS, MODELS, Fault, build, make

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("good")
    return {model: build(folder / model, model) for model in MODELS}


def test_faults_have_sixty_one_distinct_names() -> None:
    assert len({fault.name for fault in FAULTS}) == 61


@pytest.mark.parametrize(
    ("model", "overlays"),
    [("hello-mpi", ["multi-node", "single-node"]), ("every-kind", ["parameter-server", "serving", "shards"])],
)
def test_packages_without_faults_have_no_findings(good: dict[str, Path], model: str, overlays: list[str]) -> None:
    with opened(good[model]) as package:
        report = verify(package, Checks())
    assert report.problems == ()
    assert report.unchecked == ()
    levels = [(security.overlay, str(security.level)) for security in report.security]
    assert levels == [(overlay, "restricted") for overlay in overlays]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_finding_points_at_the_fault(fault: Fault, good: dict[str, Path], tmp_path: Path) -> None:
    folder = make(fault, good[fault.model], tmp_path / "package")
    with opened(folder) as package:
        report = verify(package, Checks())
    assert report.problems, f"{fault.name} was not found"
    file = str(folder / fault.file)
    pointed = [problem for problem in report.problems if problem.file == file]
    assert pointed, [str(problem) for problem in report.problems]
    if fault.line:
        lines = (folder / fault.file).read_text(encoding="utf-8").splitlines()
        at = [lines[problem.line - 1] for problem in pointed]
        assert any(fault.line in line for line in at), [str(problem) for problem in report.problems]
    # A fault may cause at most a second finding in each overlay.
    assert len(report.problems) <= 4, [str(problem) for problem in report.problems]
    assert all(re.fullmatch(r"[^\n]+", str(problem)) for problem in report.problems)

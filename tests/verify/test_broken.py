"""Fifty-one faults in a few packages: each has a finding that points at the line with the fault."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.package.opened import opened
from packager.verify import Checks, verify
from tests.broken import FAULTS, MODELS, build, make

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("good")
    return {model: build(folder / model, model) for model in MODELS}


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


# Faults of one package, none of which hides another.
TOGETHER = (
    (
        "changed-script missing-file extra-file lost-mode missing-resource yaml-syntax unknown-kustomize-field "
        "deprecated-field patch-of-nothing remote-resource remote-openapi remote-transformer"
    ),
    "replacement-of-nothing quoted-env-value",
    (
        "key-of-another-case merged-key exported-env-key field-of-another-place misspelt-policy two-launchers "
        "too-many-processes missing-volume"
    ),
    (
        "unknown-field text-for-a-number missing-field operators-name missing-configmap missing-claim "
        "image-without-tag request-above-limit binding-to-cluster-admin object-of-another-namespace read-secret "
        "privileged-edit"
    ),
    "hidden-system half-a-device added-workload",
    ("waits-for-a-later-role misspelt-operator long-address-of-a-coordinator variable-of-the-rendezvous"),
    "service-of-the-set index-for-all",
)


def test_each_fault_is_in_one_package() -> None:
    assert sorted(" ".join(TOGETHER).split()) == sorted(fault.name for fault in FAULTS)


@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: names.partition(" ")[0])
def test_findings_point_at_the_faults(names: str, good: dict[str, Path], tmp_path: Path) -> None:
    faults = [fault for fault in FAULTS if fault.name in names.split()]
    folder = make(good[faults[0].model], tmp_path / "package", *faults)
    with opened(folder) as package:
        report = verify(package, Checks())
    for fault in faults:
        pointed = [problem for problem in report.problems if problem.file == str(folder / fault.file)]
        assert pointed, f"{fault.name} was not found: {report.problems}"
        if fault.line:
            lines = (folder / fault.file).read_text(encoding="utf-8").splitlines()
            assert any(fault.line in lines[problem.line - 1] for problem in pointed if problem.line), fault.name
    # A fault may cause at most a second finding in each overlay.
    assert len(report.problems) <= 4 * len(faults), [str(problem) for problem in report.problems]
    assert all(re.fullmatch(r"[^\n]+", str(problem)) for problem in report.problems)

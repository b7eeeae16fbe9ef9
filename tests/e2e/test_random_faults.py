"""Test of a few random faults; `python -m tests.faults` causes hundreds."""

from __future__ import annotations

import os

import pytest

from tests.faults.run import run_trials


@pytest.mark.thorough
@pytest.mark.alone
@pytest.mark.usefixtures("mpi_image")
def test_answers_stay_true_during_random_faults() -> None:
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the cluster of tests/testbed may be broken")
    outcome = run_trials(12, 3, "ci")
    assert [answer.wrong for answer in outcome.wrong] == []
    assert outcome.faults != []

"""A few of the faults that `python -m tests.faults` makes by the hundred."""

from __future__ import annotations

import os

import pytest

from tests.faults.run import run_trials


@pytest.mark.alone
@pytest.mark.usefixtures("mpi_image")
def test_what_is_said_holds_while_parts_of_the_cluster_go_away() -> None:
    if "MLPACK_E2E_CONTEXT" in os.environ:
        pytest.skip("only the cluster of tests/testbed may be broken")
    outcome = run_trials(12, 3, "ci")
    assert [answer.wrong for answer in outcome.wrong] == []
    assert outcome.faults != []

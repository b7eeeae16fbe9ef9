"""The service, killed while jobs are created. `python -m tests.kill.service` kills it fifty times."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.kill.service import ServiceTrial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.postgres import Postgres


def test_a_service_that_is_killed_loses_no_job_and_no_callback_and_doubles_nothing(tmp_path: Path) -> None:
    trial = ServiceTrial(tmp_path, Random("killed"))
    assert trial.run(2) == []
    assert (trial.killed, len(trial.released)) == (2, 20)


def test_replicas_that_are_killed_in_turn_lose_and_double_nothing_either(tmp_path: Path, postgres: Postgres) -> None:
    """Each time, it is the replica that leads: the first one, and then the one that has taken over."""
    trial = ServiceTrial(tmp_path, Random("killed"), postgres.create())
    assert trial.run(2) == []
    assert (trial.killed, len(trial.released)) == (2, 20)

"""The service, killed while jobs are created. `python -m tests.kill.service` kills it fifty times."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.kill.service import ServiceTrial

if TYPE_CHECKING:
    from pathlib import Path


def test_a_service_that_is_killed_loses_no_job_and_no_callback_and_doubles_nothing(tmp_path: Path) -> None:
    trial = ServiceTrial(tmp_path, Random("killed"))
    assert trial.run(2) == []
    assert (trial.killed, len(trial.released)) == (2, 20)

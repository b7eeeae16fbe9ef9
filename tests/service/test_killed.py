"""Kills of the service while it creates jobs."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.kill.service import ServiceTrial

if TYPE_CHECKING:
    from pathlib import Path

    from tests.service.postgres import Postgres

pytestmark = pytest.mark.thorough


def test_killed_service_neither_loses_nor_repeats_jobs_and_callbacks(tmp_path: Path) -> None:
    trial = ServiceTrial(tmp_path, Random("killed"))
    assert trial.run(2) == []
    assert (trial.killed, len(trial.released)) == (2, 20)


def test_killed_service_on_postgresql_neither_loses_nor_repeats_jobs(tmp_path: Path, postgres: Postgres) -> None:
    trial = ServiceTrial(tmp_path, Random("killed"), postgres.create())
    assert trial.run(2) == []
    assert (trial.killed, len(trial.released)) == (2, 20)

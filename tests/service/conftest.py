from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.service.registry import rendering
from packager.service.registry.rendering import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.postgres import Postgres


SQLITE = "sqlite"
BOTH = pytest.mark.parametrize("database", [SQLITE, "postgresql"], indirect=True)
"""Runs a test on each sort of database: those of the store, and those of what several requests do to each other."""


@pytest.fixture(scope="session")
def renderer() -> Iterator[Renderer]:
    """Fills in templates; on a machine that is busy with other things it may take its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "_SECONDS", 300.0)
        renderer = Renderer()
        yield renderer
        renderer.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server of PostgreSQL, without a database of ours."""
    from tests.service.postgres import running

    with running() as server:
        yield server


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database: of SQLite, and of PostgreSQL too in tests that are marked `BOTH`."""
    if getattr(request, "param", SQLITE) == SQLITE:
        return str(tmp_path / "server.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()

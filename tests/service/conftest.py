from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.service.registry import rendering
from packager.service.registry.rendering import Renderer
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.service.postgres import Postgres


SQLITE = "sqlite"
BOTH = pytest.mark.parametrize(
    "database", [SQLITE, pytest.param("postgresql", marks=pytest.mark.thorough)], indirect=True
)
"""Runs a test on SQLite and on PostgreSQL: for tests of the store and of concurrent requests."""


@pytest.fixture(scope="session")
def renderer() -> Iterator[Renderer]:
    """A renderer with a time limit of 300 s, for busy machines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "_SECONDS", 300.0)
        renderer = Renderer()
        yield renderer
        renderer.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL server without databases for tests."""
    from tests.service.postgres import running

    with running() as server:
        yield server


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new database: SQLite, and also PostgreSQL in tests that are marked `BOTH`."""
    if getattr(request, "param", SQLITE) == SQLITE:
        return str(tmp_path / "server.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.create()


@pytest.fixture
def service(database: str) -> Iterator[Service]:
    service = Service(database)
    with service.client:
        assert service.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield service
    assert [line for line in service.log if "Traceback" in line] == []


@pytest.fixture
def digits(service: Service) -> Service:
    """The service, with the template and the definition of `bodies`."""
    assert service.post("/v1/templates", {"name": "digits-task", "template": bodies.TEMPLATE}).status_code == 201
    answer = service.post("/v1/definitions", bodies.definition())
    assert answer.status_code == 201, answer.text
    return service

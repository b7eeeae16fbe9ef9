"""Fixtures of the tests of registries: a fake one, the real one of Debian, and a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.builder.build import BuildRequest, Built, Destination
from packager.builder.build import build as build_packages
from tests.publish import fake_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.publish.fake_registry import FakeRegistry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A fake registry without TLS."""
    with fake_registry.serving() as registry:
        yield registry


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of hello-mpi; tests must not change it."""
    from contextlib import nullcontext

    from packager.modelspec.catalog import model_folders

    folder = tmp_path_factory.mktemp("archive")
    request = BuildRequest("hello-mpi", tuple(model_folders([])))
    (built,) = build_packages(
        request, Destination(folder), tell=lambda _: None, progress=lambda *_, **__: nullcontext(lambda _: None)
    )
    assert isinstance(built, Built)
    return built.path


@pytest.fixture
def no_logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the developer's logins and proxies."""
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "no-docker"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "localhost,127.0.0.1")


@pytest.fixture(autouse=True)
def _hidden(no_logins: None) -> None:
    """Hide them from all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.base import rest
from packager.publish.credentials import Login
from packager.service.access.tokens import create
from packager.service.config import PackagesConfig, ProjectConfig, RegistryConfig
from packager.service.registry.packages.registries import Registry
from packager.service.registry.packages.sources import PackageSources
from tests.service.api.conftest import Service
from tests.service.registry.packages.fake_registry import registry

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC = Registry("ghcr.io")
COMMON = Registry("registry.example.com", Login("robot", "common"))
RESEARCH = Registry("registry.example.com", Login("research", "own"))
VISION = Registry("vision.example.com", Login("vision", "own"))


@pytest.mark.parametrize(
    ("project", "registries"),
    [
        (None, [PUBLIC, COMMON]),
        ("research", [PUBLIC, RESEARCH]),
        ("vision", [PUBLIC, VISION]),
        ("audio", [PUBLIC]),
        ("gone", [PUBLIC]),  # no longer configured
    ],
)
def test_projects_use_their_own_registries_and_those_without_a_password(
    project: str | None, registries: list[Registry]
) -> None:
    own = {"research": {RESEARCH.host: RESEARCH}, "vision": {VISION.host: VISION}, "audio": {}}
    sources = PackageSources(None, {PUBLIC.host: PUBLIC, COMMON.host: COMMON}, own)
    assert sources.registries_of(project) == {registry.host: registry for registry in registries}


@pytest.mark.parametrize("own", [{}, {"default": {}}])
def test_only_project_of_a_server_uses_all_passwords(own: dict[str, dict[str, Registry]]) -> None:
    sources = PackageSources(None, {COMMON.host: COMMON}, own)
    assert sources.registries_of("default") == sources.registries_of(None) == {COMMON.host: COMMON}


def test_definition_is_pulled_only_with_the_password_of_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMON", "of-the-server")
    monkeypatch.setenv("RESEARCH", "of-research")

    def configured(user: str, variable: str) -> dict[str, RegistryConfig]:
        return {fake.host: RegistryConfig(username=user, password_variable=variable, insecure=True)}

    with registry() as fake:
        fake.push("team/demo", "1.0", b"no package")
        fake.asks_for = "basic"
        projects = {
            "research": ProjectConfig(namespace="ml-research", registries=configured("research", "RESEARCH")),
            "vision": ProjectConfig(namespace="ml-vision"),
        }
        packages = PackagesConfig(registries=configured("robot", "COMMON"))
        service = Service(tmp_path / "server.db", projects=projects, packages=packages)
        for name in projects:
            service.tokens[name] = create(service.server.store, name, "developer", None, name)[1]
        cases: tuple[tuple[str, str | None, tuple[str, str] | None], ...] = (
            ("vision", "vision", None),
            ("developer", "vision", None),
            ("research", "research", ("research", "of-research")),
            ("developer", "research", ("research", "of-research")),
            ("developer", None, ("robot", "of-the-server")),
        )
        for caller, project, sent in cases:
            fake.requests.clear()
            source = f"oci://{fake.host}/team/demo:1.0"
            body = {"name": f"{project}.demo" if project else "demo", "package": {"source": source}, "project": project}
            answer = service.post("/v1/definitions?dry_run=true", body, caller)
            assert answer.status_code == 422, answer.text  # the pulled file is not a package
            passwords = {header for _, header in fake.requests} - {None}
            assert passwords == ({rest.basic(*sent)} if sent else set()), (caller, project)
            assert bool(fake.requests) == bool(sent)
        service.server.close()

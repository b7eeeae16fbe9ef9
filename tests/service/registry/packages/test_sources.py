from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import rest
from packager.service.access.tokens import create
from packager.service.config import PackagesConfig, ProjectConfig, RegistryConfig
from tests.service.api.conftest import Service
from tests.service.registry.packages.fake_registry import registry

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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

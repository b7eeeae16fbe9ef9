from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.base.values import convert
from packager.service.access.tokens import create
from packager.service.config import ProjectConfig
from tests.service.api.conftest import COUNTDOWN
from tests.service.fake import FakeCluster
from tests.service.page.conftest import Site, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECTS = {
    "research": {"namespace": "ml-research", "max_running": 2, "max_gpus": 4},
    "vision": {"namespace": "ml-vision", "pod_security": "baseline"},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with two projects, and tokens for one of them."""
    cluster = FakeCluster()
    cluster.namespaces = {"ml-research", "ml-vision"}
    configured = {key: convert(value, ProjectConfig) for key, value in PROJECTS.items()}
    made = Site(tmp_path_factory.mktemp("projects") / "server.db", cluster=cluster, projects=configured)
    for name, role in (("ada", "user"), ("dev", "developer"), ("root", "admin")):
        made.tokens[name] = create(made.server.store, name, role, None, "research")[1]
    with made.client:
        assert made.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield made


def test_overview_shows_the_limits_of_the_projects_of_the_caller(site: Site) -> None:
    form = {"/process/train/number": "3", "/project": "research"}
    assert site.send("/new/countdown", form, "ada").status_code == 303
    assert "vision ml-vision" in text_of(site.view("/overview"))
    own = text_of(site.view("/overview", "ada"))
    assert re.search("research ml-research [01] of 2 ", own)
    assert "ml-vision" not in own


def test_job_form_offers_the_projects_of_the_caller(site: Site) -> None:
    shown = site.view("/new/countdown").text
    options = re.findall(r"<option>(\w+)</option>", shown)
    assert options == ["research", "vision"]
    assert 'type="hidden" name="/project" value="research"' in site.view("/new/countdown", "ada").text
    answer = site.send("/new/countdown", {"/process/train/number": "3", "/project": "vision"})
    release = answer.headers["location"].removeprefix("/jobs/")
    assert site.get(f"/v1/jobs/{release}").json()["project"] == "vision"
    assert "Project vision" in text_of(site.view(f"/jobs/{release}"))
    assert site.view(f"/jobs/{release}", "ada").status_code == 404
    assert release not in site.view("/jobs", "ada").text
    refused = site.send("/new/countdown", {"/process/train/number": "3", "/project": "vision"}, "ada")
    assert refused.status_code == 422
    assert "project 'vision' not found" in text_of(refused)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.service.access.tokens import create
from packager.service.config import ProjectConfig
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, FILLED
from tests.service.fake import FakeCluster
from tests.service.page.conftest import Site
from tests.service.stored import change_job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HIDDEN = "a-secret-of-ada"
ENDPOINTS = [
    {"endpoint": "s3://b/x", "type": "dataset", "headers": {"x-key": HIDDEN}},
    {"endpoint": "https://h.example/cb", "type": "event", "headers": {"x-api-key": HIDDEN}},
]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    cluster = FakeCluster()
    cluster.namespaces = {"default", "vision"}
    configured = {name: ProjectConfig(namespace=name) for name in ("default", "vision")}
    site = Site(tmp_path / "server.db", cluster=cluster, projects=configured)
    store = site.server.store
    for name, role, project in (("ada", "user", None), ("eve", "user", None), ("root", "admin", "vision")):
        site.tokens[name] = create(store, name, role, None, project)[1]
    with site.client:
        assert site.post("/v1/templates", {"name": "digits-task", "template": bodies.TEMPLATE}).status_code == 201
        assert site.post("/v1/definitions", bodies.definition()).status_code == 201
        yield site


def created(site: Site, role: str = "ada", **changes: Any) -> str:
    answer = site.post("/v1/jobs", {**bodies.filled(), "project": "default", **changes}, role)
    assert answer.status_code == 201, answer.text
    release = str(answer.json()["release"])
    site.until(lambda: ("Job", release) in site.cluster.objects, "the Job")
    return release


def jobs(site: Site) -> list[str]:
    return [str(job["release"]) for job in site.get("/v1/jobs").json()["items"]]


def test_rerun_by_a_developer_is_refused_if_others_filled_in_secrets(site: Site) -> None:
    role = "developer"
    release = created(site, endpoints=ENDPOINTS)
    refused = site.post(f"/v1/jobs/{release}/rerun", None, role)
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "the job has headers or secrets of others: only ada runs it again",
    )
    assert site.send(f"/jobs/{release}/rerun", {}, role).status_code == 403
    assert jobs(site) == [release]
    assert site.post(f"/v1/jobs/{release}/rerun", None, "ada").status_code == 201


@pytest.mark.parametrize("creator", [{}, {"creator": 0}])
def test_job_without_a_creator_belongs_to_the_caller_who_reruns_it(site: Site, creator: dict[str, Any]) -> None:
    assert site.post("/v1/definitions", COUNTDOWN).status_code == 201
    answer = site.post("/v1/jobs", {**FILLED, "project": "default", **creator}, "ada")
    assert (answer.status_code, answer.json()["creator"], answer.json()["owner"]) == (201, "ada", "token:ada")
    again = site.post(f"/v1/jobs/{answer.json()['release']}/rerun", None, "developer").json()
    assert (again["creator"], again["owner"]) == ("developer", "token:developer")


def test_developers_rerun_jobs_with_their_own_secrets(site: Site) -> None:
    release = created(site, "developer", endpoints=ENDPOINTS)
    assert site.post(f"/v1/jobs/{release}/rerun", None, "developer").status_code == 201


def test_rerun_is_refused_if_the_definition_keeps_a_secret_no_longer(site: Site) -> None:
    description = "env:\n  TOKEN: (Optional:secret) Opens the hub\n"
    before = bodies.definition(user_values_description=bodies.DESCRIPTION + description)
    assert site.call("PUT", "/v1/definitions/digits", json=before).status_code == 200
    release = created(site, env={"TOKEN": HIDDEN})
    assert site.post(f"/v1/jobs/{release}/rerun", None, "ada").status_code == 201
    after = bodies.definition(user_values_description=before["user_values_description"].replace(":secret", ""))
    assert site.call("PUT", "/v1/definitions/digits", json=after).status_code == 200
    refused = site.post(f"/v1/jobs/{release}/rerun", None, "ada")
    assert (refused.status_code, refused.json()["errors"]) == (
        422,
        [{"pointer": "/env/TOKEN", "detail": "was filled in as a secret, and is not one in the definition any more"}],
    )
    assert HIDDEN not in refused.text
    assert len(jobs(site)) == 2
    assert site.post(f"/v1/jobs/{release}/rerun?pinned=true", None, "ada").status_code == 201


def test_cancel_of_a_job_that_has_just_ended_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    release, store = created(site), site.server.store
    want = store.want

    def end_before(*arguments: str) -> object:
        assert change_job(store, release, status="succeeded")
        return want(*arguments)

    monkeypatch.setattr(store, "want", end_before)
    refused = site.post(f"/v1/jobs/{release}/cancel", None, "ada")
    assert (refused.status_code, refused.json()["detail"]) == (409, "the job has ended: it is succeeded")
    assert ("Job", release) in site.cluster.objects

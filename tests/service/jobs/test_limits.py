"""The limits on the jobs of a project and of a caller, and on their share of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from packager.service.config import LimitsConfig, ProjectConfig
from packager.service.jobs import limits
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.conftest import BOTH

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def narrow(database: str) -> Iterator[Service]:
    """A service in which a caller may have two jobs, and the project three jobs and 1 MiB."""
    service = Service(database, limits=LimitsConfig(caller_jobs=2, project_jobs=3, project_mib=1))
    with service.client:
        assert service.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield service
    assert [line for line in service.log if "Traceback" in line] == []


@BOTH
def test_jobs_over_the_limits_are_refused_until_others_have_ended(
    narrow: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = narrow.created(), narrow.created()
    refused = narrow.post("/v1/jobs", FILLED)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert refused.json()["detail"] == (
        "2 jobs of the caller in project 'default' have not ended "
        "(limits.caller_jobs in the configuration of the server)"
    )
    assert narrow.post("/v1/jobs", FILLED, "user").status_code == 201
    assert narrow.post("/v1/jobs", FILLED, "developer").json()["detail"].startswith("3 jobs of the project 'default'")
    assert narrow.post(f"/v1/jobs/{first}/cancel").status_code == 202
    narrow.status(first, "deleted")
    assert narrow.post("/v1/jobs", FILLED).status_code == 429  # the number of jobs is cached
    monkeypatch.setattr(limits, "_SECONDS", 0)
    assert narrow.post("/v1/jobs", FILLED).status_code == 201


def test_definitions_of_a_project_over_the_limit_are_refused_until_one_is_removed(database: str) -> None:
    projects = {name: ProjectConfig(namespace=f"ns-{name}") for name in ("red", "blue")}
    service = Service(database, projects=projects, limits=LimitsConfig(project_definitions=2))

    def added(name: str, project: str | None) -> Any:
        return service.post("/v1/definitions", {**COUNTDOWN, "name": name, "project": project})

    with service.client:
        assert [added(f"red.{name}", "red").status_code for name in "ab"] == [201, 201]
        refused = added("red.c", "red")
        assert refused.status_code == 429
        assert refused.json()["detail"] == (
            "the project 'red' has 2 definitions: remove some "
            "(limits.project_definitions in the configuration of the server)"
        )
        changed = {**COUNTDOWN, "name": "red.a", "project": "red", "description": "Another"}
        assert service.call("PUT", "/v1/definitions/red.a", json=changed).status_code == 200
        assert [added(name, project).status_code for name, project in (("blue.a", "blue"), ("d", None))] == [201, 201]
        assert service.call("DELETE", "/v1/definitions/red.a").status_code == 204
        assert added("red.c", "red").status_code == 201


WIDE = """\
apiVersion: batch/v1
kind: Job
metadata: {name: "{{ global.release }}"}
spec:
  parallelism: {{ process.train.number }}
  template: {spec: {containers: [{name: main, image: "example.com/a:1", command: [train]}]}}
"""


def test_job_with_too_many_pods_is_refused(narrow: Service) -> None:
    assert narrow.post("/v1/templates", {"name": "wide", "template": WIDE}).status_code == 201
    wide = {**COUNTDOWN, "name": "wide", "task_template_name": "wide"}
    wide["user_values_example"] = wide["user_values_example"].replace("countdown", "wide")
    assert narrow.post("/v1/definitions", wide).status_code == 201
    values = {"taskDef": "wide", "process": {"train": {"number": 1_001}}}
    for path in ("/v1/jobs", "/v1/jobs?dry_run=true"):
        refused = narrow.post(path, values)
        detail = "the job starts 1,001 pods, and limits.job_pods of the server is 1,000"
        assert (refused.status_code, refused.json()["detail"]) == (422, detail)
    assert narrow.post("/v1/jobs", {**values, "process": {"train": {"number": 1_000}}}).status_code == 201

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.base.values import convert
from packager.service.access.tokens import create
from packager.service.config import ProjectConfig
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROJECTS = {
    "research": {"namespace": "ml-research", "max_running": 2, "max_queued": 2, "max_running_per_creator": 2},
    "vision": {"namespace": "ml-vision", "max_gpus": 1, "pod_security": "baseline"},
    "kueue": {"namespace": "ml-kueue", "queue": "user-queue", "max_queued": 2, "max_gpus": 0},
}


class Projects(Service):
    """A server with three projects, and tokens for two of these projects."""

    def __init__(self, path: Path) -> None:
        cluster = FakeCluster()
        cluster.namespaces = {"ml-research", "ml-vision", "ml-kueue"}
        super().__init__(
            path,
            cluster=cluster,
            projects={key: convert(PROJECTS[key], ProjectConfig) for key in PROJECTS},
        )
        store = self.server.store
        for name, role, project in (
            ("ada", "user", "research"),
            ("eve", "user", "vision"),
            ("dev", "developer", "vision"),
            ("root", "admin", "research"),
        ):
            self.tokens[name] = create(store, name, role, None, project)[1]

    def job(self, project: str | None = None, role: str = "admin", **changes: Any) -> Any:
        body = {**FILLED, **changes, **({"project": project} if project else {})}
        return self.post("/v1/jobs", body, role)

    def held(self, release: str) -> dict[str, Any]:
        job: dict[str, Any] = self.get(f"/v1/jobs/{release}").json()
        return job


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Projects]:
    service = Projects(tmp_path / "server.db")
    with service.client:
        assert service.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield service


def test_projects_are_listed_only_to_callers_with_a_role_in_them(service: Projects) -> None:
    everything = service.get("/v1/projects", "viewer").json()["items"]
    assert [project["name"] for project in everything] == list(PROJECTS)
    assert everything[0] == {
        "name": "research", "namespace": "ml-research", "pod_security": "restricted", "max_running": 2,
        "max_running_per_creator": 2, "max_gpus": None, "max_queued": 2, "queue": None,
    }  # fmt: skip
    assert [project["name"] for project in service.get("/v1/projects", "eve").json()["items"]] == ["vision"]
    assert service.get("/v1/projects/research/usage", "eve").status_code == 404
    assert service.get("/v1/projects/none/usage").status_code == 404
    assert service.get("/v1/whoami", "eve").json() == {
        "name": "eve",
        "key": "token:eve",
        "roles": {"vision": "user"},
        "projects": ["vision"],
    }


def test_job_belongs_to_a_project_and_runs_in_its_namespace(service: Projects) -> None:
    answer = service.job(role="eve")  # the only project in which eve may create jobs
    assert (answer.status_code, answer.json()["project"]) == (201, "vision")
    release = answer.json()["release"]
    assert answer.json()["workload"]["namespace"] == "ml-vision"
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    assert service.cluster.objects["Job", release]["metadata"]["namespace"] == "ml-vision"
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    assert "project" not in answer.json()["values"]
    missing = service.job()
    assert (missing.status_code, missing.json()["errors"]) == (
        422,
        [{"pointer": "/project", "detail": "is missing: expected research or vision or kueue"}],
    )
    for role, project, status in (("admin", "none", 422), ("eve", "research", 422), ("viewer", "vision", 403)):
        assert service.job(project, role).status_code == status
    assert service.post("/v1/jobs", {**FILLED, "project": {"a": 1}}).status_code == 422


def test_project_admin_manages_tokens_of_that_project_only(service: Projects) -> None:
    made = service.post("/v1/tokens", {"name": "bob", "role": "user", "project": "research"}, "root")
    assert (made.status_code, made.json()["project"]) == (201, "research")
    assert service.post("/v1/tokens", {"name": "x", "role": "user"}, "root").status_code == 403
    for project in ("vision", "none"):  # a hidden project is refused like a missing one
        refused = service.post("/v1/tokens", {"name": "x", "role": "user", "project": project}, "root")
        assert (refused.status_code, refused.json()["errors"][0]["detail"]) == (422, f"project '{project}' not found")
    assert service.post("/v1/tokens", {"name": "x", "role": "user", "project": "none"}).status_code == 422
    assert {token["name"] for token in service.get("/v1/tokens", "root").json()["items"]} == {"ada", "root", "bob"}
    others = {token["name"]: token["id"] for token in service.get("/v1/tokens").json()["items"]}
    assert service.call("DELETE", f"/v1/tokens/{others['eve']}", "root").status_code == 404
    assert service.call("DELETE", f"/v1/tokens/{others['bob']}", "root").status_code == 204


def test_project_definition_is_used_and_changed_in_that_project_only(service: Projects) -> None:
    made = service.post("/v1/definitions", {**COUNTDOWN, "name": "vision.own"}, "dev")
    assert (made.status_code, made.json()["project"]) == (201, "vision")
    assert service.get("/v1/definitions/vision.own", "eve").status_code == 200
    for suffix in ("", "/revisions", "/revisions/1"):
        assert service.get(f"/v1/definitions/vision.own{suffix}", "ada").status_code == 404
    assert [item["name"] for item in service.get("/v1/definitions", "ada").json()["items"]] == ["countdown"]
    assert service.job("vision", "eve", taskDef="vision.own").status_code == 201
    refused = service.job("research", "ada", taskDef="vision.own")
    assert (refused.status_code, refused.json()["detail"]) == (422, "definition 'vision.own' not found")
    assert (
        "hint" not in service.job("research", "ada", taskDef="vision.owm").json()["errors"][0]
    )  # the similar name is one of another project
    assert (
        service.job("vision", "eve", taskDef="vision.owm").json()["errors"][0]["hint"] == "did you mean 'vision.own'?"
    )
    put = service.call("PUT", "/v1/definitions/vision.own", "dev", json={**COUNTDOWN, "name": "vision.own"})
    assert (put.status_code, put.json()["project"]) == (200, "vision")
    shared = service.call("PUT", "/v1/definitions/countdown", "dev", json=COUNTDOWN)
    assert (shared.status_code, shared.json()["detail"]) == (
        403,
        "expected the role developer in all projects, to which the definition belongs",
    )
    assert service.call("DELETE", "/v1/definitions/countdown", "dev").status_code == 403
    for project, status in (("research", 422), ("none", 422)):
        body = {**COUNTDOWN, "name": "other", "project": project}
        assert service.post("/v1/definitions", body, "dev").status_code == status
    assert service.call("DELETE", "/v1/definitions/vision.own", "dev").status_code == 204


def test_name_check_does_not_reveal_definitions_of_other_projects(service: Projects) -> None:
    body = {**COUNTDOWN, "name": "research.own", "project": "research"}
    detail = "expected a name that begins with 'vision.', as the definition belongs to that project"
    assert service.post("/v1/definitions", body).status_code == 201
    for name in ("research.own", "research.none", "own"):
        refused = service.post("/v1/definitions", {**COUNTDOWN, "name": name}, "dev")
        assert refused.json()["errors"] == [{"pointer": "/name", "detail": detail, "hint": f"name: vision.{name}"}]


def test_jobs_over_the_limit_are_queued_and_start_in_order(service: Projects) -> None:
    releases = [service.job("research").json()["release"] for _ in range(4)]
    states = [service.held(release) for release in releases]
    assert [job["status"] for job in states] == ["pending", "pending", "queued", "queued"]
    assert states[2]["reason"] == "NoRoom"
    message = "waits for room in the project: 2 of at most 2 jobs of its creator have started"
    assert [(job["place"], job["message"]) for job in states[2:]] == [(1, message), (2, message)]
    refused = service.job("research")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "60")
    assert refused.json()["type"] == "urn:mlpack:problem:quota"
    assert refused.json()["detail"] == "2 jobs of the project 'research' wait, and no more may"
    assert service.job("vision").status_code == 201
    usage = service.get("/v1/projects/research/usage", "viewer").json()
    assert usage["project"]["max_running"] == 2
    assert {key: usage[key] for key in ("queued", "pending", "running", "gpus")} == {
        "queued": 2,
        "pending": 2,
        "running": 0,
        "gpus": 0,
    }
    service.until(lambda: ("Job", releases[1]) in service.cluster.objects, "the first two")
    assert ("Job", releases[2]) not in service.cluster.objects
    service.cluster.pod(releases[0], "Succeeded", exit_code=0)
    service.cluster.end(releases[0], "Complete")
    service.until(lambda: ("Job", releases[2]) in service.cluster.objects, "the third, when there is room")
    assert service.get(f"/v1/jobs/{releases[3]}").json()["place"] == 1
    assert ("Job", releases[3]) not in service.cluster.objects
    assert service.post(f"/v1/jobs/{releases[3]}/cancel").status_code == 202
    service.status(releases[3], "deleted")
    events = service.get(f"/v1/jobs/{releases[2]}/events").json()["items"]
    assert [(event["status"], event["reason"]) for event in events[:2]] == [
        ("queued", "Created"),
        ("pending", "Admitted"),
    ]


def test_project_limits_the_gpus_of_its_jobs(service: Projects) -> None:
    text = bodies.TEMPLATE.replace("nvidia.com/gpu: 1", 'nvidia.com/gpu: "{{ process.train.maxStep or 1 }}"')
    assert service.post("/v1/templates", {"name": "digits-task", "template": text}).status_code == 201
    definition = bodies.definition(user_values_example=bodies.EXAMPLE.replace("maxStep: 2000", "maxStep: 2"))
    assert service.post("/v1/definitions", definition).status_code == 201

    def job(gpus: int) -> Any:
        filled = bodies.filled(creator="admin")
        filled["process"]["train"]["maxStep"] = gpus
        return service.post("/v1/jobs", {**filled, "project": "vision"})

    assert [job(1).json()["status"], job(1).json()["status"]] == ["pending", "queued"]
    assert service.get("/v1/projects/vision/usage").json()["gpus"] == 1
    refused = job(2)
    assert (refused.status_code, refused.json()["detail"]) == (
        422,
        "the job takes 2 GPUs: max_gpus of the project 'vision' is 1",
    )


def test_kueue_decides_when_a_job_in_its_queue_starts(service: Projects) -> None:
    release = service.job("kueue").json()["release"]
    assert service.held(release)["status"] == "queued"
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    job = service.cluster.objects["Job", release]
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-queue"
    assert job["spec"]["suspend"] is True
    service.until(lambda: service.held(release)["message"] == "Kueue holds it in the queue 'user-queue'", "the message")
    second = service.job("kueue").json()["release"]
    assert service.job("kueue").status_code == 429
    service.until(lambda: ("Job", second) in service.cluster.objects, "the other Job")
    changed = json.loads(json.dumps(job))
    changed["spec"]["suspend"] = False
    service.cluster.put(changed)
    service.status(release, "pending")
    service.cluster.pod(release, "Running")
    assert service.status(release, "running")["reason"] is None
    assert service.held(second)["status"] == "queued"


def test_job_in_a_queue_is_explained_by_kueue(service: Projects) -> None:
    release = service.job("kueue").json()["release"]
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    uid = service.cluster.objects["Job", release]["metadata"]["uid"]
    used_up = (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor large, 2 more needed"
    )
    service.cluster.objects["LocalQueue", "user-queue"] = {
        "kind": "LocalQueue",
        "metadata": {"name": "user-queue", "namespace": "ml-kueue"},
        "spec": {"clusterQueue": "research"},
    }
    service.cluster.objects["Workload", "own"] = {
        "kind": "Workload",
        "metadata": {"name": "own", "namespace": "ml-kueue", "uid": "w1", "ownerReferences": [{"uid": uid}]},
        "spec": {"queueName": "user-queue"},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": used_up}]},
    }
    service.server.follower.look_at(release, "ml-kueue")
    service.until(lambda: service.held(release)["reason"] == "QuotaUsedUp", "the reason of Kueue")
    job = service.held(release)
    assert (job["status"], job["message"][:36]) == ("queued", "the quota of the ClusterQueue resear")
    assert job["hint"].startswith("wait for other jobs of the queue user-queue to end, or request less")


def is_applied(service: Projects, release: str) -> bool:
    job = service.server.store.job(release)
    return job is not None and job.applied


def test_job_started_by_kueue_is_not_suspended_again_after_a_restart(service: Projects) -> None:
    release = service.job("kueue").json()["release"]
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    service.status(release, "queued")
    service.until(lambda: is_applied(service, release), "the note that it is applied")
    service.cluster.objects["Job", release]["spec"]["suspend"] = False
    service.cluster.applied.clear()
    store = service.server.store
    with store._writing() as connection:  # noqa: SLF001 - as if the server had ended before this note
        connection.exec_driver_sql("UPDATE jobs SET applied = 0")
    service.server.follower.look_at(release, "ml-kueue")
    service.until(lambda: is_applied(service, release), "the note")
    assert service.cluster.applied == []
    assert service.cluster.objects["Job", release]["spec"]["suspend"] is False


def test_revisions_of_a_project_stay_hidden_after_the_definition_is_shared(service: Projects) -> None:
    body = {**COUNTDOWN, "name": "research.old", "project": "research", "description": "hidden-word"}
    assert service.post("/v1/definitions", body).status_code == 201
    assert service.call("DELETE", "/v1/definitions/research.old").status_code == 204
    assert service.post("/v1/definitions", {**COUNTDOWN, "name": "research.old"}).status_code == 201
    for role, seen in (("eve", [2]), ("ada", [2, 1])):
        listed = service.get("/v1/definitions/research.old/revisions", role)
        assert [item["revision"] for item in listed.json()["items"]] == seen
        assert ("hidden-word" in listed.text) == (1 in seen)
        first = service.get("/v1/definitions/research.old/revisions/1", role)
        assert first.status_code == (200 if 1 in seen else 404)

from __future__ import annotations

import asyncio
import copy
import json
import threading
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UnreachableError
from packager.base.values import replace
from packager.service.jobs import follower
from packager.service.registry import template_values
from packager.service.store.store import Store
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.conftest import BOTH
from tests.service.stored import add_job

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from packager.service.store.models import StoredStatus


@BOTH
def test_job_runs_from_creation_to_success_with_an_event_per_status(service: Service) -> None:
    answer = service.post("/v1/jobs", FILLED, "user")
    assert answer.status_code == 201, answer.text
    release = answer.json()["release"]
    assert answer.headers["location"] == f"/v1/jobs/{release}"
    service.until(lambda: ("Job", release) in service.cluster.objects, "the Job")
    service.cluster.pod(release, "Running")
    job = service.status(release, "running")
    assert (job["creator"], job["definition"]) == ("user", {"name": "countdown", "revision": 1})
    assert job["pods"] == [{"name": f"{release}-x2x9p", "state": "Running", "restarts": 0, "node": "n3"}]
    service.cluster.pod(release, "Succeeded", exit_code=0)
    service.cluster.end(release, "Complete")
    job = service.status(release, "succeeded")
    assert job["started"] <= job["ended"]
    assert job["message"] == "the pod has succeeded"
    events = service.get(f"/v1/jobs/{release}/events").json()["items"]
    assert [(event["sequence"], event["status"], event["actor"]) for event in events] == [
        (1, "pending", "user"),
        (2, "running", None),
        (3, "succeeded", None),
    ]


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the control loop check the jobs every 20 ms, and return a list with the number of jobs of each check."""
    counted: list[int] = []
    unfinished = Store.unfinished

    def count(store: Store) -> list[StoredStatus]:
        jobs = unfinished(store)
        counted.append(len(jobs))
        return jobs

    monkeypatch.setattr(Store, "unfinished", count)
    monkeypatch.setattr(follower, "TICK", 0.02)
    return counted


def test_job_gets_another_release_name_if_the_first_is_taken(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = service.created()
    names = [taken, taken, "countdown-another"]
    monkeypatch.setattr(template_values, "release_name", lambda *_: names.pop(0))
    answer = service.post("/v1/jobs", FILLED, "user", headers={"Idempotency-Key": "k"})
    assert (answer.status_code, answer.json()["release"]) == (201, "countdown-another")
    assert answer.headers["location"] == "/v1/jobs/countdown-another"
    assert len(service.get("/v1/jobs").json()["items"]) == 2


def test_failed_job_reports_the_exit_code_when_the_pod_watch_is_late(service: Service) -> None:
    release = service.created()
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    service.cluster.late.add("Pod")
    service.cluster.pod(release, "Failed", exit_code=3)
    service.cluster.end(release, "Failed")
    job = service.status(release, "failed")
    assert job["message"] == "container counter ended with exit code 3"
    assert job["pods"][0]["state"] == "Error"


def test_job_objects_are_applied_with_owners_and_headers_stay_secret(digits: Service) -> None:
    endpoints = [
        {"endpoint": "s3://b/x", "type": "dataset", "headers": {"x-key": "dataset-secret"}},
        {"endpoint": "https://h.example/cb", "type": "event", "headers": {"x-api-key": "event-secret"}},
    ]
    answer = digits.post("/v1/jobs", bodies.filled(endpoints=endpoints), "developer")
    assert answer.status_code == 201, answer.text
    release = answer.json()["release"]
    digits.until(lambda: digits.cluster.applied.count(f"ConfigMap/{release}") == 2, "the owner of the ConfigMap")
    assert digits.cluster.applied.count(f"Secret/{release}-endpoints") == 1
    secret = digits.cluster.objects["Secret", f"{release}-endpoints"]
    assert json.loads(secret["stringData"]["dataset.json"]) == endpoints[:1]
    owner = digits.cluster.objects["Job", release]["metadata"]["uid"]
    holder = digits.cluster.objects["ConfigMap", f"{release}-secrets-owner"]
    for item in (holder, digits.cluster.objects["ConfigMap", release]):
        assert item["metadata"]["ownerReferences"][0]["uid"] == owner
    assert secret["metadata"]["ownerReferences"][0]["uid"] == holder["metadata"]["uid"]
    assert "ownerReferences" not in digits.cluster.objects["PersistentVolumeClaim", release]["metadata"]
    assert answer.json()["values"]["endpoints"][1]["headers"] == {"x-api-key": "***"}
    shown = answer.text + digits.get(f"/v1/jobs/{release}/manifests").text + digits.get("/v1/jobs").text
    shown += digits.post("/v1/jobs?dry_run=true", bodies.filled(endpoints=endpoints)).text + "\n".join(digits.log)
    stored = b"".join(path.read_bytes() for path in digits.path.parent.glob("server.db*"))
    for secret_word in ("dataset-secret", "event-secret"):
        assert secret_word not in shown
        assert secret_word.encode() not in stored
    again = digits.post(f"/v1/jobs/{release}/rerun", role="developer")
    assert again.status_code == 201, again.text
    other = again.json()["release"]
    digits.until(lambda: ("Secret", f"{other}-endpoints") in digits.cluster.objects, "the Secret of the other")
    content = digits.cluster.objects["Secret", f"{other}-endpoints"]["stringData"]["dataset.json"]
    assert json.loads(content) == endpoints[:1]


def test_new_job_takes_at_most_two_write_transactions(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    database, written = service.server.store.database, []
    begin = database._begin  # noqa: SLF001 - each transaction begins with it

    def counted(connection: Connection) -> None:
        written.append(connection)
        begin(connection)

    monkeypatch.setattr(service.server.follower, "look_at", lambda *_, **__: None)
    monkeypatch.setattr(database, "_begin", counted)
    assert service.post("/v1/jobs", FILLED, "user").status_code == 201
    assert 1 <= len(written) <= 2  # the job, and at most once a minute the use of the token


def test_dry_run_of_a_job_creates_nothing(service: Service) -> None:
    answer = service.post("/v1/jobs?dry_run=true", FILLED, "user")
    assert answer.status_code == 200
    assert [item["kind"] for item in answer.json()["manifests"]] == ["Job"]
    assert service.get("/v1/jobs").json() == {"items": [], "next": None}
    assert service.cluster.objects == {}


@pytest.mark.parametrize(
    ("filled", "detail"),
    [
        ({"taskDef": "nothing"}, "definition 'nothing' not found"),
        ({}, "is missing: name of the task definition"),
        ({**FILLED, "image": {"tag": "x"}}, "is set by the definition, in system_values"),
    ],
)
def test_invalid_values_are_refused(service: Service, filled: dict[str, object], detail: str) -> None:
    answer = service.post("/v1/jobs", filled)
    assert (answer.status_code, answer.json()["errors"][0]["detail"]) == (422, detail)


def test_job_counts_its_attempts(service: Service) -> None:
    release = service.created()
    path = f"/v1/jobs/{release}"
    assert service.get(path).json()["attempts"] is None
    item = service.cluster.objects["Job", release]
    service.cluster.put({**copy.deepcopy(item), "status": {"active": 1}})
    service.until(lambda: service.get(path).json()["attempts"] == 1, "the first attempt")
    service.cluster.put({**copy.deepcopy(item), "status": {"failed": 1, "active": 1}})
    service.until(lambda: service.get(path).json()["attempts"] == 2, "the second attempt")
    service.cluster.end(release, "Failed")  # this status has no count of pods
    assert service.status(release, "failed")["attempts"] == 2


def test_job_refused_by_the_cluster_is_reported_and_not_stored(service: Service) -> None:
    service.cluster.refused = {"Job": "admission webhook denied the request: no budget"}
    answer = service.post("/v1/jobs", FILLED)
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:mlpack:problem:cluster-refused")
    assert answer.json()["detail"] == "admission webhook denied the request: no budget"
    assert service.get("/v1/jobs").json()["items"] == []


def test_stored_jobs_can_be_read_while_the_cluster_is_unreachable(service: Service) -> None:
    release = service.created()
    service.cluster.error = UnreachableError("the cluster does not answer: connection refused")
    answer = service.post("/v1/jobs", FILLED)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert service.get(f"/v1/jobs/{release}").status_code == 200
    service.until(lambda: service.get("/readyz").status_code == 503, "the server not to be ready")
    assert service.get("/healthz").status_code == 200
    service.cluster.error = None
    service.cluster.pod(release, "Running")
    service.status(release, "running")


@BOTH
def test_requests_with_one_idempotency_key_create_one_job(service: Service) -> None:
    headers = {"Idempotency-Key": "one"}
    first = service.post("/v1/jobs", FILLED, headers=headers)
    again = service.post("/v1/jobs", FILLED, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again.headers["location"] == first.headers["location"]
    other = service.post("/v1/jobs", {**FILLED, "description": "x"}, headers=headers)
    assert (other.status_code, other.json()["type"]) == (422, "urn:mlpack:problem:idempotency-mismatch")
    assert len(service.get("/v1/jobs").json()["items"]) == 1
    refused = service.post("/v1/jobs", {"taskDef": "no"}, headers={"Idempotency-Key": "two"})
    assert refused.status_code == 422
    assert service.post("/v1/jobs", FILLED, headers={"Idempotency-Key": "two"}).status_code == 201


@BOTH
def test_concurrent_requests_with_one_idempotency_key_create_one_job(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, headers = service.server.store, {"Idempotency-Key": "one"}
    first = service.post("/v1/jobs", FILLED, headers=headers)
    found = store.job_of_request
    early = [None]  # the second request looks before the first one has stored its job
    monkeypatch.setattr(store, "job_of_request", lambda key: early.pop() if early else found(key))
    second = service.post("/v1/jobs", FILLED, headers=headers)
    assert (second.status_code, second.json()["release"]) == (201, first.json()["release"])
    assert early == []
    assert len(service.get("/v1/jobs").json()["items"]) == 1


def test_link_to_the_next_page_does_not_depend_on_the_host_header(service: Service) -> None:
    releases = [service.post("/v1/jobs", FILLED).json()["release"] for _ in range(2)]
    first = service.get("/v1/jobs?limit=1&q=countdown&q=tdown", headers={"Host": "other.example"})
    link, _, relation = first.headers["link"].partition("; ")
    assert (link[:9], relation) == ("</v1/jobs", 'rel="next"')
    assert [job["release"] for job in service.get(link[1:-1]).json()["items"]] == releases[:1]


@BOTH
def test_jobs_are_listed_by_pages_and_filters(service: Service) -> None:
    releases = [service.created(name=f"app-{number % 2}") for number in range(5)]
    path, listed = "/v1/jobs?limit=2", []
    while path:
        answer = service.get(path)
        page = answer.json()
        listed += [job["release"] for job in page["items"]]
        path = f"/v1/jobs?limit=2&cursor={page['next']}" if page["next"] else ""
        assert ("link" in answer.headers) == bool(path)
    assert listed == releases[::-1]
    found = service.get("/v1/jobs?application=app-1").json()["items"]
    assert [job["release"] for job in found] == [releases[3], releases[1]]
    assert service.get("/v1/jobs?cursor=%5B").status_code == 400
    assert service.get("/v1/jobs?limit=201").status_code == 400


def test_invalid_job_filters_are_refused(service: Service) -> None:
    for query, detail in (
        ("status=done", "status: expected queued, pending, running, succeeded, failed, deleted; found 'done'"),
        ("since=yesterday", "since: expected a duration such as 90s, 1h30m or 7d, or a time such as "),
        ("until=0001-01-01T00:00:00%2B01:00", "until: expected a time of the years 1 to 9999 in UTC, found "),
    ):
        problem = service.get(f"/v1/jobs?{query}").json()
        assert (problem["status"], problem["type"]) == (400, "urn:mlpack:problem:invalid-query")
        assert problem["detail"].startswith(detail)


def test_job_is_cancelled_once_by_a_developer_and_not_by_another_user(service: Service) -> None:
    release = service.created()
    assert service.post(f"/v1/jobs/{release}/cancel", role="user").status_code == 403
    assert service.post(f"/v1/jobs/{release}/cancel", role="developer").status_code == 202
    job = service.status(release, "deleted")
    assert job["reason"] == "Cancelled"
    assert ("Job", release) not in service.cluster.objects
    assert service.post(f"/v1/jobs/{release}/cancel", role="developer").status_code == 409


def test_job_that_is_deleted_while_it_is_being_cancelled_is_removed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = service.created()
    begun, may_end, delete = threading.Event(), threading.Event(), service.cluster.delete

    async def slow(kind: str, name: str, namespace: str) -> None:
        begun.set()
        await asyncio.to_thread(may_end.wait, 30)
        await delete(kind, name, namespace)

    monkeypatch.setattr(service.cluster, "delete", slow)
    assert service.post(f"/v1/jobs/{release}/cancel").status_code == 202
    assert begun.wait(30)
    assert service.call("DELETE", f"/v1/jobs/{release}").status_code == 202
    may_end.set()
    service.until(lambda: service.get(f"/v1/jobs/{release}").status_code == 404, "the job to be removed")


@pytest.mark.parametrize(("query", "kept"), [("", True), ("?storage=delete", False)])
def test_deleted_job_keeps_its_claim_unless_storage_delete_is_requested(
    digits: Service, query: str, *, kept: bool
) -> None:
    release = digits.post("/v1/jobs", bodies.filled(creator="admin")).json()["release"]
    digits.until(lambda: ("Job", release) in digits.cluster.objects, "the Job")
    assert digits.call("DELETE", f"/v1/jobs/{release}{query}").status_code == 202
    digits.until(lambda: digits.get(f"/v1/jobs/{release}").status_code == 404, "the end of the record")
    assert {kind for kind, _ in digits.cluster.objects} == ({"PersistentVolumeClaim"} if kept else set())


def test_delete_keeps_an_object_of_others_with_the_name_of_the_job(digits: Service) -> None:
    release = digits.post("/v1/jobs", bodies.filled(creator="admin")).json()["release"]
    digits.until(lambda: ("Job", release) in digits.cluster.objects, "the Job")
    place = ("PersistentVolumeClaim", release)
    asyncio.run(digits.cluster.delete(*place, "tests"))
    digits.cluster.put({"kind": place[0], "metadata": {"name": release, "namespace": "tests", "uid": "theirs"}})
    assert digits.call("DELETE", f"/v1/jobs/{release}?storage=delete").status_code == 202
    digits.until(lambda: digits.get(f"/v1/jobs/{release}").status_code == 404, "the end of the record")
    assert set(digits.cluster.objects) == {place}
    assert any(f"PersistentVolumeClaim {release} was made by others" in line for line in digits.log)


def test_job_becomes_deleted_when_its_objects_are_deleted_in_the_cluster(service: Service) -> None:
    release = service.created()
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    for key in list(service.cluster.objects):
        asyncio.run(service.cluster.delete(*key, "tests"))
    assert service.status(release, "deleted")["reason"] == "DeletedInCluster"


def test_rerun_uses_the_current_or_the_pinned_revisions(service: Service) -> None:
    release = service.created()
    changed = {**service.get("/v1/definitions/countdown").json(), "description": "new"}
    body = {key: changed[key] for key in changed if key not in ("revision", "created", "author", "warnings")}
    assert service.call("PUT", "/v1/definitions/countdown", json=body).status_code == 200
    now = service.post(f"/v1/jobs/{release}/rerun").json()
    then = service.post(f"/v1/jobs/{release}/rerun?pinned=true").json()
    assert (now["definition"]["revision"], then["definition"]["revision"]) == (2, 1)
    assert now["values"] == then["values"] == FILLED


@BOTH
def test_restart_applies_missed_jobs_once(database: str) -> None:
    service = Service(database)
    with service.client:
        assert service.post("/v1/definitions", COUNTDOWN).status_code == 201
        applied = service.created()
        service.cluster.error = UnreachableError("away")
        store = service.server.store
        job = store.job(applied)
        assert job
        missed = "countdown-0badc0"
        add_job(store, replace(job, release=missed, manifests=job.manifests.replace(applied, missed), applied=False))
    again = Service(database)
    again.cluster.objects = service.cluster.objects
    with again.client:
        again.until(lambda: ("Job", missed) in again.cluster.objects, "the Job that was not applied")
        assert [item for item in again.cluster.applied if item.startswith("Job/")] == [f"Job/{missed}"]
        assert len(again.get("/v1/jobs").json()["items"]) == 2

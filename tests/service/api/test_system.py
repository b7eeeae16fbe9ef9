from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.store.databases import AwayError
from tests.service.api.conftest import Service
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.mark.parametrize("path", ["jobs", "jobs/{release}/logs"])
def test_answers_to_a_token_are_not_kept_by_proxies(service: Service, path: str) -> None:
    release = service.created()
    service.cluster.logs[f"{release}-x2x9p"] = ["a line\n"]
    service.cluster.pod(release, "Running")
    answer = service.get(f"/v1/{path.format(release=release)}", None, headers={"x-api-key": service.tokens["admin"]})
    assert answer.status_code in (200, 404)
    assert answer.headers["cache-control"] == "no-store"
    assert service.get("/v1/jobs", None).headers["cache-control"] == "no-store"


def test_tokens_are_created_used_and_removed(service: Service) -> None:
    made = service.post("/v1/tokens", {"name": "ada", "role": "user", "days": 1})
    assert made.status_code == 201
    text, identifier = made.json()["token"], made.json()["id"]
    assert text.startswith("mlp_")
    for headers in ({"Authorization": f"Bearer {text}"}, {"x-api-key": text}):
        assert service.get("/v1/whoami", None, headers=headers).json() == {
            "name": "ada",
            "key": "token:ada",
            "roles": {"*": "user"},
            "projects": ["default"],
        }
    listed = service.get("/v1/tokens")
    assert text not in listed.text
    assert next(item for item in listed.json()["items"] if item["id"] == identifier)["last_used"] is not None
    assert service.call("DELETE", f"/v1/tokens/{identifier}").status_code == 204
    assert service.get("/v1/whoami", None, headers={"x-api-key": text}).status_code == 401
    assert service.call("DELETE", f"/v1/tokens/{identifier}").status_code == 404
    assert text.encode() not in service.path.read_bytes()


def test_database_errors_are_in_the_log_and_not_in_answers(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AwayError('the database does not answer: connection to "10.0.0.5" failed for user "mlpack"')

    monkeypatch.setattr(service.server.store.tokens, "by_digest", fail)
    monkeypatch.setattr(service.server.store, "check_writable", fail)
    answer = service.get("/v1/jobs", None, headers={"x-api-key": "mlp_x"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["detail"] == "see the log of the server"
    ready = service.get("/readyz", None)
    assert (ready.status_code, ready.json()) == (503, {"status": "not ready"})
    lines = [json.loads(line) for line in service.log if "10.0.0.5" in line]
    assert answer.json()["instance"] in [f"/v1/requests/{line.get('request')}" for line in lines]


@pytest.mark.parametrize("header", ["", "Bearer mlp_x", "Basic x"])
def test_invalid_token_is_refused(service: Service, header: str) -> None:
    answer = service.get("/v1/whoami", None, headers={"Authorization": header.encode("latin-1")})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("options", "status", "kind"),
    [
        ({"content": b"{", "headers": {"Content-Type": "application/json"}}, 400, "invalid-json"),
        ({"content": b"[1]", "headers": {"Content-Type": "application/json"}}, 422, "invalid-body"),
        ({"content": b"a=1", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}, 415, "not-json"),
        ({"json": {"name": "x", "template": "a: 1", "more": 1}}, 422, "invalid-body"),
        ({"json": {"name": "x", "template": "y" * 600_000}}, 413, "too-large"),
    ],
)
def test_invalid_bodies_are_refused_with_problems(
    service: Service, options: dict[str, Any], status: int, kind: str
) -> None:
    answer = service.call("POST", "/v1/templates", **options)
    assert (answer.status_code, answer.json()["type"]) == (status, f"urn:mlpack:problem:{kind}"), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().keys() == {"type", "title", "status", "detail", "instance", "errors"}


NAME = "a name of letters, digits and - _ . between them, such as train-resnet (at most 54)"


@pytest.mark.parametrize(
    ("path", "body", "detail", "pointer"),
    [
        ("jobs", b"null", "expected a mapping, found nothing", None),
        ("templates", b'{"name": "x", "template": "a: 1", "a/b": 1}', "/a~1b: unknown key 'a/b'", "/a~1b"),
        ("templates", b'{"name": 5, "template": "a"}', f"/name: expected {NAME}, found the number 5", "/name"),
        (
            "definitions",
            b'{"name": "a", "task_template_name": "", "user_values_description": "", "user_values_example": ""}',
            f"/task_template_name: expected {NAME}, found ''",
            "/task_template_name",
        ),
    ],
)
def test_invalid_body_is_refused_with_a_pointer(
    service: Service, path: str, body: bytes, detail: str, pointer: str | None
) -> None:
    answer = service.call("POST", f"/v1/{path}", content=body, headers={"Content-Type": "application/json"})
    problem = answer.json()
    assert (answer.status_code, problem["detail"]) == (422, detail)
    assert [item["pointer"] for item in problem["errors"]] == ([] if pointer is None else [pointer])


def test_all_faults_of_a_body_are_reported_at_once(service: Service) -> None:
    body = {"name": "-", "template": 5, "deprecated": "no", "more": 1}
    answer = service.post("/v1/templates", body)
    assert (answer.status_code, answer.json()["detail"]) == (422, "4 problems in the body")
    assert sorted(item["pointer"] for item in answer.json()["errors"]) == ["/deprecated", "/more", "/name", "/template"]


def test_empty_body_is_refused_as_invalid_json(service: Service) -> None:
    for path in ("templates", "definitions", "jobs", "tokens"):
        problem = service.call("POST", f"/v1/{path}", headers={"Content-Type": "application/json"}).json()
        assert (problem["status"], problem["type"]) == (400, "urn:mlpack:problem:invalid-json"), path
        assert problem["detail"] == "expected JSON, found no body"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"/v1/templates/countdown-task/revisions/{10**30}", 404),
        ("GET", "/v1/nothing", 404),
        ("PATCH", "/v1/jobs", 405),
    ],
)
def test_unknown_paths_and_methods_are_answered_with_problems(
    service: Service, method: str, path: str, status: int
) -> None:
    answer = service.call(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_internal_error_is_answered_without_details(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr(service.server.store.revisions, "current", fail)
    answer = service.get("/v1/templates")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    (line,) = [line for line in service.log if "Traceback" in line]
    assert "a secret of the inside" in line
    service.log.remove(line)


def test_server_without_tokens_serves_this_machine_only(tmp_path: Path) -> None:
    service = Service(tmp_path / "open.db", trusted=True)
    with service.client:
        assert service.get("/v1/whoami", None).json()["roles"] == {"*": "admin"}
        answer = service.get("/v1/whoami", None, headers={"Host": "evil.example"})
        assert answer.status_code == 403


def test_event_stream_continues_after_the_last_event_id(service: Service) -> None:
    release = service.created()
    assert service.post(f"/v1/jobs/{release}/cancel").status_code == 202
    service.status(release, "deleted")
    headers = {"Accept": "text/event-stream"}
    stream = service.get(f"/v1/jobs/{release}/events", headers=headers)
    assert stream.headers["content-type"].startswith("text/event-stream")
    blocks = stream.text.strip().split("\n\n")
    ids = [event["id"] for event in service.get(f"/v1/jobs/{release}/events").json()["items"]]
    assert [block.split("\n")[0] for block in blocks] == [f"id: {identifier}" for identifier in ids]
    assert '"status":"deleted"' in blocks[-1]
    rest = service.get(f"/v1/jobs/{release}/events", headers={**headers, "Last-Event-ID": ids[1]})
    assert rest.text.startswith(f"id: {ids[2]}\n")
    assert [event["id"] for event in service.get(f"/v1/events?after={ids[0]}").json()["items"]] == ids[1:]
    assert service.get("/v1/jobs/no/events").status_code == 404


class FailsWhenCancelled(FakeCluster):
    """A cluster whose watches raise RuntimeError when they are cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()

    async def watch(self, *_arguments: object) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("the connection was closed")
        yield "ADDED", {}


def test_server_shutdown_completes_when_a_watch_fails(tmp_path: Path) -> None:
    cluster = FailsWhenCancelled()
    service = Service(tmp_path / "server.db", cluster=cluster)

    async def run() -> None:
        async with service.server.running():
            await cluster.begun.wait()

    asyncio.run(asyncio.wait_for(run(), 20))
    assert "the connection was closed" in "".join(service.log)

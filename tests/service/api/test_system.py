from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.service.store.databases import AwayError
from tests.service.api.conftest import Service

if TYPE_CHECKING:
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
    service.until(lambda: service.get("/readyz", None).status_code == 503, "the server not to be ready")
    lines = [json.loads(line) for line in service.log if "10.0.0.5" in line]
    assert answer.json()["instance"] in [f"/v1/requests/{line.get('request')}" for line in lines]


def test_all_faults_of_a_body_are_reported_at_once(service: Service) -> None:
    body = {"name": "-", "template": 5, "deprecated": "no", "more": 1}
    answer = service.post("/v1/templates", body)
    assert (answer.status_code, answer.json()["detail"]) == (422, "4 problems in the body")
    assert sorted(item["pointer"] for item in answer.json()["errors"]) == ["/deprecated", "/more", "/name", "/template"]


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

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.service import bodies

if TYPE_CHECKING:
    from tests.service.api.conftest import Service


def lines(service: Service) -> list[dict[str, Any]]:
    """Return the log entries of requests, without their times."""
    read = [json.loads(line) for line in service.log]
    return [{key: value for key, value in line.items() if key != "time"} for line in read if "request" in line]


def test_log_names_the_caller_of_each_change(digits: Service) -> None:
    digits.log.clear()
    filled = bodies.filled(endpoints=[{"type": "dataset", "endpoint": "s3://x", "headers": {"x-api-key": "s3cr3t"}}])
    release = digits.post("/v1/jobs", filled, "developer").json()["release"]
    digits.get(f"/v1/jobs/{release}")
    digits.call("DELETE", f"/v1/jobs/{release}", "admin")
    said = lines(digits)
    assert [(line["message"], line["caller"]) for line in said] == [
        (f"POST /v1/jobs: 201 /v1/jobs/{release}", "developer"),
        (f"DELETE /v1/jobs/{release}: 202", "admin"),
    ]
    assert len({line["request"] for line in said}) == 2
    assert "s3cr3t" not in "".join(digits.log)


def test_refused_request_is_logged_with_its_id(service: Service) -> None:
    for path, role, caller in (
        ("/v1/jobs/none", "viewer", {"caller": "viewer", "key": "token:viewer"}),
        ("/v1/tokens", "viewer", {"caller": "viewer", "key": "token:viewer"}),
        ("/v1/jobs", None, {}),
        ("/v1/no\x1b[2J\nthing", "viewer", {}),
    ):
        service.log.clear()
        problem = service.get(quote(path), role).json()
        (line,) = lines(service)
        kind = problem["type"].rpartition(":")[2]
        assert line.pop("message") == f"GET {path}: {problem['status']} {kind}: {problem['detail']}"
        assert line == {"request": problem["instance"].removeprefix("/v1/requests/"), **caller}
        assert service.log[0].isprintable()


def test_log_lines_are_short_for_long_requests(service: Service) -> None:
    service.log.clear()
    body = {"name": "x", "template": "a: 1", "y" * 10_000: 1}
    assert service.post(f"/v1/templates?{'q' * 10_000}", body).status_code == 422
    assert service.get(f"/v1/{'z' * 10_000}", None).status_code == 404
    assert [line["message"][:20] for line in lines(service)] == ["POST /v1/templates: ", "GET /v1/zzzzzzzzzzzz"]
    assert max(map(len, service.log)) < 2_500

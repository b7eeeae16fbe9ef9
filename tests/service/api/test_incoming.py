"""Hostile bodies, paths, queries, headers and tokens sent to every operation: the answer is never a server error."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.api.conftest import COUNTDOWN, FILLED, Service

if TYPE_CHECKING:
    from collections.abc import Iterator

JSON = {"Content-Type": "application/json"}
BODIES = {
    "invalid UTF-8": b'{"taskDef": "\xff\xfe"}',
    "nested arrays": b"[" * 100_000,
    "half of a surrogate pair": b'{"name": "\\ud800", "taskDef": "\\ud800", "template": "\\udfff"}',
    "a repeated key": b'{"name": "a", "name": "b", "taskDef": "a", "taskDef": "b"}',
    "a long integer": b'{"taskDef": ' + b"9" * 5_000 + b"}",
    "a huge float": b'{"taskDef": "countdown", "process": {"train": {"number": 1e999}}}',
    "NUL in a text": b'{"name": "a\\u0000", "taskDef": "a\\u0000", "template": "a: 1"}',
    "many keys": b"{%s}" % b",".join(b'"k%d":1' % number for number in range(38_000)),
    "nothing": b"",
}
DEEP = base64.urlsafe_b64encode(b"[" * 5_000).decode()
QUERIES = ("%ff=%ff", "q=%00", "cursor=WyJcdWQ4MDAiLCJcdWQ4MDAiXQ", "cursor=" + "W" * 8_000, "limit=" + "9" * 5_000,
           "after=" + "9" * 5_000, "since=%00", "since=9999999d", "dry_run=%ed%a0%80", "a" * 20_000, "&" * 15_000,
           "tail=" + "9" * 5_000, "number=" + "9" * 5_000, "cursor=" + DEEP)  # fmt: skip
NAMES = ("%00", "%ed%a0%80", "9" * 5_000, "%0d%0a")
PROBLEMS = range(400, 500)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service for tests that change nothing."""
    service = Service(tmp_path_factory.mktemp("shared") / "server.db")
    with service.client:
        assert service.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield service
    assert [line for line in service.log if "Traceback" in line] == []


def operations(service: Service) -> list[tuple[str, str]]:
    paths: dict[str, Any] = service.client.contract.document["paths"]
    return [(method.upper(), path) for path, item in paths.items() for method in item]


@pytest.mark.parametrize("what", BODIES)
def test_every_operation_answers_hostile_bodies_with_a_problem(shared: Service, what: str) -> None:
    for method, path in operations(shared):
        if method in ("POST", "PUT", "PATCH"):
            target = re.sub(r"{\w+}", "countdown", path)
            for role in (None, "admin"):
                answer = shared.call(method, target, role, content=BODIES[what], headers=JSON)
                assert answer.status_code in PROBLEMS, (method, path, role, answer.text[:300])
                assert len(answer.content) < 32_000
                assert role or answer.status_code == 401


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_answers_hostile_names_with_a_problem(shared: Service, name: str) -> None:
    for method, path in operations(shared):
        if "{" in path:
            answer = shared.call(method, re.sub(r"{\w+}", name, path), json=FILLED)
            assert answer.status_code in PROBLEMS, (method, path, answer.text[:300])


def test_every_list_answers_hostile_queries(service: Service) -> None:
    for method, path in operations(service):
        if method == "GET" and "{" not in path:
            for query in QUERIES:
                answer = service.client.request(
                    "GET", f"{path}?{query}", headers={"x-api-key": service.tokens["admin"], "Last-Event-ID": "9" * 50}
                )
                assert answer.status_code < 500, (path, query[:40], answer.text[:300])
    for name in NAMES:
        assert service.get(f"/v1/jobs/{name}").status_code in PROBLEMS
        assert service.get(f"/v1/definitions/{name}").status_code in PROBLEMS
        for body in ({"taskDef": "a\0b"}, {**FILLED, "project": "\0"}):
            assert service.post("/v1/jobs", body).status_code in PROBLEMS
    assert [line for line in service.log if "Traceback" in line] == []


def test_requests_without_a_token_are_refused_before_their_body_is_read(shared: Service) -> None:
    for method, path in operations(shared):
        if method in ("POST", "PUT", "PATCH"):
            answer = shared.call(method, re.sub(r"{\w+}", "x", path), None, content=b"x" * 600_000, headers=JSON)
            assert answer.status_code == 401, path  # not 413: the length of the body is not checked yet


def test_problem_names_the_position_of_a_json_error(shared: Service) -> None:
    answer = shared.call("POST", "/v1/jobs", content=b'{"taskDef":\n  x}', headers=JSON)
    assert answer.json()["detail"] == "line 2, column 3: Expecting value"


def test_values_of_a_job_are_measured_before_they_are_parsed(shared: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    blanks = b"%s{ }" % (b" " * 100_000)
    escaped = b'{"taskDef": "%s"}' % (b"\\u0061" * 12_000)
    for content in (blanks, escaped):
        assert shared.call("POST", "/v1/jobs", content=content, headers=JSON).status_code == 422
    monkeypatch.delattr("packager.base.jsonio.read")
    for content in (BODIES["many keys"], b'{"taskDef": "%s"}' % (b"a" * (64 << 10))):
        answer = shared.call("POST", "/v1/jobs", content=content, headers=JSON)
        assert (answer.status_code, answer.json()["detail"]) == (413, "expected at most 64 KiB")


def test_complaints_are_capped_and_counted(shared: Service) -> None:
    answer = shared.post("/v1/jobs", {"taskDef": "countdown", **{f"k{number}": 1 for number in range(5_000)}})
    problem = answer.json()
    assert problem["detail"] == "more than 50 problems in the filled values"
    assert len(problem["errors"]) == 51
    assert problem["errors"][-1] == {"pointer": "", "detail": "there are more problems"}
    assert len(answer.content) < 32_000


def test_schema_paths_of_litestar_are_not_served(shared: Service) -> None:
    for path in ("", "/swagger", "/redoc", "/elements", "/rapidoc", "/openapi.json", "/openapi.yaml", "/x"):
        assert shared.get(f"/schema{path}", None).status_code == 404

"""The OpenAPI document: requests for each operation and status, and generated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.service import bodies, requests
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.contract import Contract

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = {"name": "digits-task", "template": bodies.TEMPLATE}
OTHER = {"name": "other", "template": bodies.TEMPLATE}
HUGE = {"name": "x", "template": "y" * 600_000}
SPOILT = {"name": "x", "template": "{% include 'x' %}"}
FORM = {"content": b"a=1", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}
BROKEN = {"content": b"{", "headers": {"Content-Type": "application/json"}}


def keyed(key: str) -> dict[str, dict[str, str]]:
    return {"headers": {"Idempotency-Key": key}}


def matching(revision: int) -> dict[str, dict[str, str]]:
    return {"headers": {"If-Match": f'"{revision}"'}}


# Method, path, role, request options and expected status, in the order in which the requests are sent. RELEASE is a
# job that exists until its deletion, which the control loop completes later: no later request uses it.
STEPS: tuple[tuple[str, str, str | None, dict[str, Any], int], ...] = (
    ("GET", "/v1/templates", "viewer", {}, 200),
    ("GET", "/v1/templates", None, {}, 401),
    ("POST", "/v1/templates", "admin", {"json": OTHER}, 201),
    ("POST", "/v1/templates", "admin", {"json": OTHER}, 409),
    ("POST", "/v1/templates", "admin", {"json": SPOILT}, 422),
    ("POST", "/v1/templates", "admin", {"json": HUGE}, 413),
    ("POST", "/v1/templates", "admin", FORM, 415),
    ("POST", "/v1/templates", "admin", BROKEN, 400),
    ("GET", "/v1/templates/other", "viewer", {}, 200),
    ("GET", "/v1/templates/nothing", "viewer", {}, 404),
    ("POST", "/v1/templates?dry_run=true", "admin", {"json": OTHER}, 200),
    ("PUT", "/v1/templates/other", "admin", {"json": {**OTHER, "description": "second"}}, 200),
    ("PUT", "/v1/templates/other", "admin", {"json": OTHER, **matching(1)}, 412),
    ("PUT", "/v1/templates/other", "admin", {"json": OTHER, **matching(2)}, 200),
    ("PUT", "/v1/templates/nothing", "admin", {"json": {**OTHER, "name": "nothing"}}, 404),
    ("PUT", "/v1/templates/other", "admin", {"json": {**OTHER, "template": "{% block x %}"}}, 422),
    ("GET", "/v1/templates/other/revisions", "viewer", {}, 200),
    ("GET", "/v1/templates/nothing/revisions", "viewer", {}, 404),
    ("GET", "/v1/templates/other/revisions/3", "viewer", {}, 200),
    ("GET", "/v1/templates/other/revisions/4", "viewer", {}, 404),
    ("DELETE", "/v1/templates/other", "admin", {}, 204),
    ("DELETE", "/v1/templates/other", "admin", {}, 404),
    ("DELETE", "/v1/templates/countdown-task", "admin", {}, 409),
    ("GET", "/v1/definitions", "viewer", {}, 200),
    ("POST", "/v1/definitions?dry_run=true", "developer", {"json": {**COUNTDOWN, "name": "second"}}, 200),
    ("POST", "/v1/definitions", "developer", {"json": {**COUNTDOWN, "name": "second"}}, 201),
    ("POST", "/v1/definitions", "developer", {"json": {**COUNTDOWN, "name": "second"}}, 409),
    ("POST", "/v1/definitions", "developer", {"json": {**COUNTDOWN, "user_values_example": "a: }"}}, 422),
    ("GET", "/v1/definitions/second", "viewer", {}, 200),
    ("GET", "/v1/definitions/nothing", "viewer", {}, 404),
    ("PUT", "/v1/definitions/second", "developer", {"json": {**COUNTDOWN, "name": "second", "description": "x"}}, 200),
    ("PUT", "/v1/definitions/second", "developer", {"json": {**COUNTDOWN, "name": "second"}, **matching(1)}, 412),
    ("PUT", "/v1/definitions/nothing", "developer", {"json": {**COUNTDOWN, "name": "nothing"}}, 404),
    ("PUT", "/v1/definitions/second", "developer", {"json": {"name": "second"}}, 422),
    ("GET", "/v1/definitions/second/revisions", "viewer", {}, 200),
    ("GET", "/v1/definitions/nothing/revisions", "viewer", {}, 404),
    ("GET", "/v1/definitions/second/revisions/2", "viewer", {}, 200),
    ("GET", "/v1/definitions/second/revisions/3", "viewer", {}, 404),
    ("DELETE", "/v1/definitions/second", "developer", {}, 204),
    ("DELETE", "/v1/definitions/second", "developer", {}, 404),
    ("POST", "/v1/jobs", "user", {"json": FILLED}, 201),
    ("POST", "/v1/jobs?dry_run=true", "user", {"json": FILLED}, 200),
    ("POST", "/v1/jobs", "user", {"json": {**FILLED, "more": 1}}, 422),
    ("POST", "/v1/jobs", None, {"json": FILLED}, 401),
    ("POST", "/v1/jobs", "user", {"json": FILLED, **keyed("k")}, 201),
    ("POST", "/v1/jobs", "user", {"json": {**FILLED, "name": "x"}, **keyed("k")}, 422),
    ("POST", "/v1/jobs", "user", {"json": FILLED, **keyed("k" * 300)}, 400),
    ("POST", "/v1/jobs?dry_run=perhaps", "user", {"json": FILLED}, 400),
    ("GET", "/v1/jobs", "viewer", {}, 200),
    ("GET", "/v1/jobs?limit=0", "viewer", {}, 400),
    ("GET", "/v1/jobs/RELEASE", "viewer", {}, 200),
    ("GET", "/v1/jobs/nothing", "viewer", {}, 404),
    ("PATCH", "/v1/jobs/RELEASE", "developer", {"json": {"title": "best"}}, 200),
    ("PATCH", "/v1/jobs/RELEASE", "developer", {"json": {"title": "x" * 201}}, 422),
    ("PATCH", "/v1/jobs/nothing", "user", {"json": {"title": "best"}}, 404),
    ("GET", "/v1/jobs?ended_since=1d", "viewer", {}, 200),
    ("GET", "/v1/jobs/RELEASE/manifests", "viewer", {}, 200),
    ("GET", "/v1/jobs/nothing/manifests", "viewer", {}, 404),
    ("GET", "/v1/jobs/RELEASE/logs", "admin", {}, 409),
    ("GET", "/v1/jobs/nothing/logs", "viewer", {}, 404),
    ("GET", "/v1/jobs/RELEASE/events", "viewer", {}, 200),
    ("GET", "/v1/jobs/nothing/events", "viewer", {}, 404),
    ("GET", "/v1/jobs/RELEASE/metrics", "viewer", {}, 200),
    ("GET", "/v1/jobs/nothing/metrics", "viewer", {}, 404),
    ("GET", "/v1/jobs/RELEASE/callbacks", "admin", {}, 200),
    ("GET", "/v1/jobs/nothing/callbacks", "admin", {}, 404),
    ("GET", "/v1/events", "viewer", {}, 200),
    ("GET", "/v1/events?after=x", "viewer", {}, 400),
    ("POST", "/v1/jobs/RELEASE/rerun", "admin", {}, 201),
    ("POST", "/v1/jobs/RELEASE/rerun?pinned=true", "admin", {}, 201),
    ("POST", "/v1/jobs/nothing/rerun", "user", {}, 404),
    ("POST", "/v1/jobs/nothing/cancel", "user", {}, 404),
    ("POST", "/v1/jobs/RELEASE/cancel", "developer", {}, 202),
    ("DELETE", "/v1/jobs/RELEASE?storage=some", "developer", {}, 400),
    ("DELETE", "/v1/jobs/nothing", "developer", {}, 404),
    ("DELETE", "/v1/jobs/RELEASE?storage=delete", "developer", {}, 202),
    ("GET", "/v1/projects", "viewer", {}, 200),
    ("GET", "/v1/projects/default/usage", "viewer", {}, 200),
    ("GET", "/v1/projects/nothing/usage", "viewer", {}, 404),
    ("GET", "/v1/tokens", "admin", {}, 200),
    ("POST", "/v1/tokens", "admin", {"json": {"name": "x", "role": "user", "days": 1}}, 201),
    ("POST", "/v1/tokens", "admin", {"json": {"name": "x", "role": "king"}}, 422),
    ("DELETE", "/v1/tokens/nothing", "admin", {}, 404),
    ("DELETE", "/v1/tokens/TOKEN", "admin", {}, 204),
    ("GET", "/v1/whoami", "viewer", {}, 200),
    ("PATCH", "/v1/jobs", "admin", {}, 405),
    ("GET", "/metrics", "viewer", {}, 200),
    ("GET", "/healthz", None, {}, 200),
    ("GET", "/readyz", None, {}, 200),
    ("GET", "/openapi.json", None, {}, 200),
)


def test_every_operation_answers_with_the_expected_status(service: Service) -> None:
    release = service.created()
    token = next(token["id"] for token in service.get("/v1/tokens").json()["items"] if token["name"] == "user")
    answers = []
    for method, path, role, options, status in STEPS:
        target = path.replace("RELEASE", release).replace("TOKEN", token)
        answers.append((method, path, service.call(method, target, role, **options).status_code, status))
    assert [answer for answer in answers if answer[2] != answer[3]] == []
    document = service.get("/openapi.json", None).json()
    contract = Contract(document)
    used = {(method, operation[0]) for method, path, *_ in STEPS if (operation := _operation(contract, method, path))}
    operations = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    assert operations - used == set(), "STEPS has no step for these"


def _operation(contract: Contract, method: str, path: str) -> tuple[str, dict[str, Any]] | None:
    return contract.operation(method, path.partition("?")[0])


@pytest.mark.thorough
def test_generated_requests_get_answers_that_match_the_openapi_document(tmp_path: Path) -> None:
    """`make requests N=10000` sends more requests."""
    code, output = requests.send(tmp_path, 60, 1)
    assert code == 0, output

"""The limits of requests per caller, per second and at a time; requests of other projects are not delayed."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from packager.service.access.tokens import create
from packager.service.api import rate_limits
from packager.service.api.rate_limits import Rates
from packager.service.config import LimitsConfig, ProjectConfig
from packager.service.registry.rendering import Renderer
from tests.service.api.conftest import COUNTDOWN, FILLED, Service
from tests.service.fake import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def crowded(database: str) -> Iterator[Service]:
    """A service with two projects, and a developer token named after each project."""
    projects = {name: ProjectConfig(namespace=f"ns-{name}") for name in ("red", "blue")}
    cluster = FakeCluster()
    cluster.namespaces = {"ns-red", "ns-blue"}
    limits = LimitsConfig(requests_at_once=6, project_requests_at_once=6, streams=2)
    service = Service(database, cluster=cluster, projects=projects, limits=limits)
    for name in projects:
        service.tokens[name] = create(service.server.store, name, "developer", None, name)[1]
    with service.client:
        assert service.post("/v1/definitions", COUNTDOWN).status_code == 201
        yield service
    assert [line for line in service.log if "Traceback" in line] == []


@contextmanager
def ending(event: threading.Event) -> Iterator[None]:
    """Set an event when the block ends, also if it fails."""
    try:
        yield
    finally:
        event.set()


def test_rates_allow_a_burst_after_a_silence_and_then_an_even_rate() -> None:
    time = 0.0
    rates = Rates(8, lambda: time)
    assert [rates.pause("ada") for _ in range(33)] == [number / 8 - 3 for number in range(33)]
    assert rates.pause("ada") == 1.125  # this request is refused and not counted
    assert rates.pause("bob") == -3
    time = 0.5
    assert rates.pause("ada") == 0.625
    time = 60.0
    assert rates.pause("ada") < 0


def test_caller_with_too_many_concurrent_requests_is_refused(crowded: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "_LONGEST_PAUSE", 0.01)
    may_end, render = threading.Event(), Renderer.render

    def slow(renderer: Renderer, template: str, values: Any) -> Any:
        assert may_end.wait(60)
        return render(renderer, template, values)

    monkeypatch.setattr(Renderer, "render", slow)
    with ThreadPoolExecutor(6) as clients, ending(may_end):
        pending = [clients.submit(crowded.post, "/v1/jobs", FILLED, "red") for _ in range(6)]
        crowded.until(lambda: sum(crowded.client.app.state.door._at_once.values()) == 6, "six requests at work")  # noqa: SLF001
        answer = crowded.get("/v1/jobs", "red")
        crowded.tokens["rose"] = create(crowded.server.store, "rose", "developer", None, "red")[1]
        of_project = crowded.get("/v1/jobs", "rose")
        assert crowded.get("/v1/jobs", "blue").status_code == 200
        may_end.set()
        assert {call.result().status_code for call in pending} == {201}
    where = "(limits.project_requests_at_once in the configuration of the server)"
    assert of_project.status_code == 429
    assert of_project.json()["detail"] == f"6 requests of the project are at work, streams among them {where}"
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json()["detail"] == (
        "6 requests of red are at work (limits.requests_at_once in the configuration of the server)"
    )
    assert crowded.get("/v1/jobs", "red").status_code == 200


def test_caller_with_too_many_requests_per_second_is_refused(crowded: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "_LONGEST_PAUSE", 0.01)
    monkeypatch.setattr(rate_limits, "_BURST_SECONDS", 0.5)
    monkeypatch.setattr(crowded.client.app.state.door._of_callers, "a_second", 5)  # noqa: SLF001
    answers = [crowded.get("/v1/whoami", "red") for _ in range(20)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert refused[0].json()["detail"] == (
        "red makes more than 5 requests a second (limits.caller_requests_per_second in the configuration of the server)"
    )
    assert "retry-after" in refused[0].headers


def test_requests_without_a_caller_are_delayed_when_their_address_sends_many(
    crowded: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "_LONGEST_PAUSE", 0.01)
    rates = Rates(20, lambda: 0.0)
    monkeypatch.setattr(crowded.client.app.state.door, "_anonymous", rates)
    paths = ("/openapi.json", "/healthz", "/v1/nothing", "/v1/jobs", "/sign-in")
    for number in range(60):
        crowded.client.get(paths[number % len(paths)], headers={"Authorization": "Bearer mlp_unknown"})
    assert rates.pause("testclient") == pytest.approx(0, abs=1e-9)
    assert crowded.get("/v1/jobs", "blue").status_code == 200
    assert rates.pause("testclient") == pytest.approx(0.05)  # a request with a caller is not counted

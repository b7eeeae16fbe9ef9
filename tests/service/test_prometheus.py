"""The metrics for Prometheus, read over HTTP as Prometheus does."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from packager.service.callbacks import courier
from packager.service.store.databases import AwayError
from tests.service import bodies

if TYPE_CHECKING:
    import pytest

    from tests.service.api.conftest import Service

Figures = dict[str, dict[tuple[str, ...], float]]
HOOK = {"endpoint": "https://hooks.example.com/cb", "type": "event", "headers": {"x-api-key": "123qweasd"}}


def parsed(text: str) -> Figures:
    """Return the value of each series, by name and label values; histograms without their buckets."""
    figures: Figures = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        assert family.documentation
        for sample in family.samples:
            if not sample.name.endswith("_bucket"):
                assert tuple(sample.labels.values()) not in figures[sample.name]
                figures[sample.name][tuple(sample.labels.values())] = sample.value
    return figures


def scraped(service: Service) -> Figures:
    answer = service.get("/metrics", "viewer")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return parsed(answer.text)


def test_metrics_count_jobs_callbacks_and_requests(digits: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = scraped(digits)
    assert begun["mlpack_database_up"] == {(): 1}
    assert begun["mlpack_jobs"] == {("default", status): 0 for status in ("queued", "pending", "running")}

    digits.endpoints.code = 500
    monkeypatch.setattr(courier, "SCHEDULE", (3_600.0,) * len(courier.SCHEDULE))
    monkeypatch.setattr(digits.server.courier, "_part", lambda: 1.0)  # or a further attempt may be made at once
    answer = digits.post("/v1/jobs", bodies.filled(endpoints=[{"endpoint": "s3://b/", "type": "dataset"}, HOOK]))
    assert answer.status_code == 201, answer.text
    release = answer.json()["release"]
    assert "mlpack_jobs_ended_total" not in scraped(digits)
    figures = scraped(digits)
    assert figures["mlpack_jobs"]["default", "pending"] == 1
    assert figures["mlpack_job_gpus"]["default", "pending"] == 1
    assert figures["mlpack_callbacks_waiting"] == {(): 1}
    assert figures["mlpack_http_requests_total"]["POST", "/v1/jobs", "201"] == 1

    digits.endpoints.code = 200
    digits.until(lambda: ("Job", release) in digits.cluster.objects, "the Job")
    digits.cluster.pod(release, "Succeeded", exit_code=0)
    digits.cluster.end(release, "Complete")
    digits.until(lambda: scraped(digits)["mlpack_jobs_ended_total"].get(("default", "succeeded")) == 1, "its end")
    digits.until(lambda: scraped(digits)["mlpack_callbacks_waiting"] == {(): 2}, "the second callback")
    assert scraped(digits)["mlpack_jobs"]["default", "pending"] == 0
    text = digits.get("/metrics").text
    assert release not in text
    assert "123qweasd" not in text


def test_requests_with_unknown_paths_and_methods_add_no_labels(service: Service) -> None:
    def routes() -> set[tuple[str, ...]]:
        return set(scraped(service)["mlpack_http_requests_total"])

    for path in ("/v1/jobs/x", "/v1/nothing"):
        service.get(path)
    service.client.request("BREW", "/v1/jobs")
    before = routes()
    assert {("GET", "/v1/jobs/{release}", "404"), ("GET", "none", "404"), ("other", "none", "405")} <= before
    for number in range(20):
        assert service.get(f"/v1/jobs/x{number}").status_code == 404
        assert service.get(f"/{number}%0A%22").status_code == 404
        assert service.client.request(f"BREW{number}", f"/v1/jobs/{number}").status_code == 405
    assert routes() == before | {("GET", "/metrics", "200")}


def test_metrics_are_returned_without_the_database(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.until(lambda: "mlpack_jobs" in scraped(service), "the figures of the leader")

    def fail() -> None:
        raise AwayError("the database does not answer")

    monkeypatch.setattr(service.server.store, "usage", fail)
    figures = scraped(service)
    assert figures["mlpack_database_up"] == {(): 0}
    assert "mlpack_jobs" not in figures
    assert "process_resident_memory_bytes" in figures


def test_documentation_lists_all_metrics(digits: Service) -> None:
    digits.get("/v1/jobs")
    digits.server.figures.ended("default", "failed")
    text = Path(__file__).parents[2].joinpath("docs/service/operations.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(mlpack_[a-z_]+)", text))
    told = re.findall(r"^# TYPE (mlpack_\w+)", digits.get("/metrics").text, re.MULTILINE)
    assert documented == set(told)

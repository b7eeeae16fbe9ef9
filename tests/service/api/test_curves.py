from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from packager.base.errors import UnreachableError
from packager.service.jobs import logs
from tests.service.conftest import BOTH

if TYPE_CHECKING:
    from tests.service.api.conftest import Service


def lines(start: int, end: int) -> list[str]:
    return [json.dumps({"step": step, "loss": 1 / (step + 1)}) + "\n" for step in range(start, end)]


def curve(service: Service, release: str, role: str = "viewer") -> list[int]:
    """Return the steps of the only curve of a job."""
    answer = service.get(f"/v1/jobs/{release}/metrics", role)
    assert answer.status_code == 200, answer.text
    return [step for item in answer.json()["items"] for step, _ in item["points"]]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make recorded curves outdated at each request."""
    monkeypatch.setattr(logs, "_FRESH", -1.0)


@BOTH
@pytest.mark.usefixtures("fresh")
def test_job_curve_grows_and_outlives_the_pods(service: Service) -> None:
    release = service.created()
    pod = f"{release}-x2x9p"
    assert curve(service, release) == []
    service.cluster.logs[pod] = ["starting\n", *lines(0, 3)]
    service.cluster.pod(release, "Running")
    service.status(release, "running")
    assert curve(service, release) == [0, 1, 2]
    service.cluster.logs[pod] += lines(3, 5)
    assert curve(service, release) == [0, 1, 2, 3, 4]
    assert curve(service, release) == [0, 1, 2, 3, 4]
    service.cluster.logs[pod] += lines(5, 7)
    service.cluster.pod(release, "Succeeded", exit_code=0)
    service.cluster.end(release, "Complete")
    service.status(release, "succeeded")
    for kind in ("Pod", "Job"):
        service.cluster.objects.pop((kind, pod if kind == "Pod" else release))
    service.cluster.error = UnreachableError("the cluster does not answer")
    assert curve(service, release) == list(range(7))
    service.cluster.error = None

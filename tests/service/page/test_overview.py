from __future__ import annotations

from typing import TYPE_CHECKING

from tests.service import bodies
from tests.service.page.conftest import text_of

if TYPE_CHECKING:
    from tests.service.page.conftest import Site


def test_overview_shows_running_waiting_and_failed_jobs(digits: Site) -> None:
    failed = digits.post("/v1/jobs", bodies.filled()).json()["release"]
    digits.until(lambda: ("Job", failed) in digits.cluster.objects, "the job to be applied")
    digits.cluster.pod(failed, "Failed", exit_code=1)
    digits.cluster.end(failed, "Failed")
    digits.until(lambda: digits.get(f"/v1/jobs/{failed}").json()["status"] == "failed", "the job to fail")
    waiting = digits.post("/v1/jobs", bodies.filled()).json()["release"]
    shown = digits.view("/overview", "viewer")
    text = text_of(shown)
    overview, _, rest = text.partition("Waiting longest")
    assert "Project Running Starting Queued Failed in 24 hours GPUs default tests 0 1 0 1 1" in overview
    assert waiting in rest.partition("Failed in 24 hours")[0]
    assert failed in rest.partition("Failed in 24 hours")[2]
    counted = digits.view("/jobs?project=default&status=failed&ended_since=24h", "viewer").text
    assert 'href="/jobs?project=default&amp;status=failed&amp;ended_since=24h">1</a>' in shown.text
    assert failed in counted
    assert "No job matches" in digits.view("/jobs?status=failed&ended_since=2100-01-01", "viewer").text

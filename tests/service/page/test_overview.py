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
    text = text_of(digits.view("/overview", "viewer"))
    overview, _, rest = text.partition("Waiting longest")
    assert "Project Running Starting Queued Failed today GPUs default 0 1 0 1 1" in overview
    assert waiting in rest.partition("Failed today")[0]
    assert failed in rest.partition("Failed today")[2]

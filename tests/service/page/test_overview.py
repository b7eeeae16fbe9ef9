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


def test_overview_shows_only_projects_of_the_caller(site: Site) -> None:
    text = text_of(site.view("/overview"))
    assert "No job waits." in text
    assert "No job has failed in the last 24 hours." in text


def test_errors_keep_the_navigation_of_people_who_have_signed_in(site: Site) -> None:
    html = {"Accept": "text/html"}
    for path, status in (("/nowhere", 404), ("/jobs/nothing", 404)):
        headers = {**html, "Cookie": site.sign_in("viewer")}
        answer = site.client.get(path, headers=headers, follow_redirects=False)
        assert answer.status_code == status
        assert 'href="/definitions"' in answer.text
    forbidden = site.view("/new-template", "viewer")
    assert forbidden.status_code == 403
    assert 'href="/definitions"' in forbidden.text
    anonymous = site.client.get("/nowhere", headers=html, follow_redirects=False)
    assert anonymous.status_code == 404
    assert 'href="/definitions"' not in anonymous.text

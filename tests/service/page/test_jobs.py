from __future__ import annotations

import re
from typing import Any

import pytest

from packager.service.page import html
from tests.service import bodies
from tests.service.api.conftest import FILLED
from tests.service.page.conftest import Site, text_of


def test_job_view_begins_with_the_cause_of_a_failure(site: Site) -> None:
    release = site.created()
    site.cluster.logs[f"{release}-x2x9p"] = ["five\n", "four\n"]
    site.cluster.pod(release, "Failed", exit_code=137, reason="OOMKilled")
    site.cluster.end(release, "Failed")
    job = site.status(release, "failed")
    text = text_of(site.view(f"/jobs/{release}"))
    assert text.index(job["message"]) < text.index("Definition countdown revision 1")
    assert f"What to do: {job['hint']}" in text
    assert "five four" in text
    assert "In its log: four" in text
    assert f"{release}-x2x9p OOMKilled 0 n3" in text
    assert "process.train.number 3" in text
    assert "kind: Job" in text
    assert "by admin" in text


def test_job_that_the_cluster_refuses_after_its_dry_run_shows_the_message_everywhere(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota, a webhook or the rights of the server may have changed since."""
    message = 'Job.batch "x" is invalid: resources.limits[memory]: Invalid value: "4Gb"'
    apply = site.cluster.apply

    async def changed(item: dict[str, Any], namespace: str, *, dry_run: bool = False) -> dict[str, Any]:
        site.cluster.refused = {} if dry_run else {"Job": message}
        return await apply(item, namespace, dry_run=dry_run)

    monkeypatch.setattr(site.cluster, "apply", changed)
    release = site.post("/v1/jobs", FILLED, "user").json()["release"]
    job = site.status(release, "failed")
    assert (job["reason"], job["message"]) == ("ClusterRefused", message)
    for path in (f"/jobs/{release}", "/jobs"):
        assert message in text_of(site.view(path)), path


def test_job_view_lists_deleted_objects_and_cancels_the_job_once(digits: Site) -> None:
    release = digits.post("/v1/jobs", bodies.filled()).json()["release"]
    digits.until(lambda: ("Job", release) in digits.cluster.objects, "the Job")
    text = text_of(digits.view(f"/jobs/{release}"))
    assert f"This stops the job and deletes ConfigMap {release}, Job {release} with the pods." in text
    assert f"The claim {release} stays, with what the job has written." in text
    answer = digits.send(f"/jobs/{release}/cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{release}")
    digits.status(release, "deleted")
    again = digits.send(f"/jobs/{release}/cancel")
    assert again.status_code == 409
    assert "the job has ended: it is deleted" in text_of(again)


def test_job_is_deleted_with_its_claim(digits: Site) -> None:
    release = digits.post("/v1/jobs", bodies.filled()).json()["release"]
    digits.until(lambda: ("Job", release) in digits.cluster.objects, "the Job")
    assert digits.send(f"/jobs/{release}/delete", {"storage": "delete"}).headers["location"] == "/jobs"
    digits.until(lambda: digits.view(f"/jobs/{release}").status_code == 404, "the record to be deleted")
    assert ("PersistentVolumeClaim", release) not in digits.cluster.objects


def test_rerun_sent_twice_creates_one_job(site: Site) -> None:
    release = site.created()
    key = re.search(r'name="key" form="rerun" value="(\w+)"', site.view(f"/jobs/{release}").text)
    assert key
    first, second = (site.send(f"/jobs/{release}/rerun", {"key": key[1]}) for _ in range(2))
    assert (first.status_code, second.headers["location"]) == (303, first.headers["location"])
    assert len(site.get("/v1/jobs").json()["items"]) == 2


def test_job_view_hides_log_and_actions_from_other_users(site: Site) -> None:
    release = site.created(creator="ada")
    site.cluster.logs[f"{release}-x2x9p"] = ["a secret\n"]
    site.cluster.pod(release, "Running")
    site.status(release, "running")
    for role in ("viewer", "user"):
        answer = site.view(f"/jobs/{release}", role)
        assert "a secret" not in answer.text
        assert "the job belongs to ada: only developers read the logs of others" in text_of(answer)
        assert "/cancel" not in answer.text
        refused = site.send(f"/jobs/{release}/cancel", role=role)
        assert refused.status_code == 403
    assert "a secret" in site.view(f"/jobs/{release}", "developer").text


def test_callbacks_are_shown_to_permitted_callers_only(digits: Site) -> None:
    release = digits.post("/v1/jobs", bodies.filled()).json()["release"]
    text = text_of(digits.view(f"/jobs/{release}"))
    assert "Callbacks Told Endpoint State Attempts" in text
    assert (
        "https://hooks.example.com/v1/ml/train/callback" in text.partition("Callbacks Told")[2].partition("Values")[0]
    )
    assert "Callbacks" not in text_of(digits.view(f"/jobs/{release}", "user"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (61, "1 min"), (7800, "2 h 10 min"), (200_000, "2 d 7 h")],
)
def test_time_spans_have_two_units_at_most(seconds: float, text: str) -> None:
    assert html.span(seconds) == text


def test_static_files_are_cached_by_their_digest(site: Site) -> None:
    page = site.view("/sign-in").text
    for name, kind in {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}.items():
        path = next(word for word in page.split('"') if word.endswith(name))
        answer = site.client.get(path)
        assert answer.headers["content-type"].startswith(kind)
        assert "immutable" in answer.headers["cache-control"]
        assert "immutable" not in site.client.get(f"/static/0/{name}").headers["cache-control"]
    assert site.client.get("/static/0/app.py").status_code == 404


def test_missing_path_is_an_error_page_for_browsers_and_a_problem_for_programs(site: Site) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for role in (None, "viewer"):
        cookie = {"Cookie": site.sign_in(role)} if role else {}
        answer = site.client.get("/nothing", headers={**browser, **cookie}, follow_redirects=False)
        assert answer.status_code == 404
        assert "Not found this page does not exist" in text_of(answer)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
    for path in ("/nothing", "/v1/nothing"):
        answer = site.client.get(path, headers={"Accept": "application/json"})
        assert answer.json()["type"] == "urn:mlpack:problem:not-found"

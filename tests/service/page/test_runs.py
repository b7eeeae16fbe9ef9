from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.service.page.conftest import text_of

if TYPE_CHECKING:
    from tests.service.page.conftest import Site

RATES = {"slow": ("3", (2.0, 1.5)), "good": ("10", (2.0, 0.25)), "wild": ("7", (2.0, 9.0))}
"""The numbers and the losses of three runs, by title."""


def runs(site: Site) -> dict[str, str]:
    """Create jobs of one definition that have printed a metric, and return their releases by title."""
    made = {}
    for title, (count, losses) in RATES.items():
        release = made[title] = site.created(process={"train": {"number": int(count)}})
        renamed = site.call("PATCH", f"/v1/jobs/{release}", json={"title": title})
        assert (renamed.status_code, renamed.json()["title"]) == (200, title)
        site.cluster.logs[f"{release}-x2x9p"] = [
            f'{{"step": {step}, "loss": {loss}}}\n' for step, loss in enumerate(losses)
        ]
        site.cluster.pod(release, "Running")
        site.status(release, "running")
        site.get(f"/v1/jobs/{release}/metrics")
    return made


def order(text: str, made: dict[str, str]) -> list[str]:
    """Return the titles of the jobs in a list, in its order."""
    titles = {release: title for title, release in made.items()}
    return [titles[release] for release in re.findall(r'name="job" value="([^"]+)"', text)]


def test_job_list_shows_and_filters_jobs(site: Site) -> None:
    first = site.created(name="demo", creator="ada")
    second = site.created(name="nightly", creator="grace")
    text = text_of(site.view("/jobs"))
    assert text.index(second) < text.index(first)
    assert "ago" in text
    for query, expected in {
        "creator=ada": {first},
        "application=nightly": {second},
        "q=nightly": {second},
        "status=pending": {first, second},
        "status=failed": set(),
        "since=2000-01-01&until=2001-01-01": set(),
        "definition=countdown&since=2000-01-01": {first, second},
    }.items():
        shown = site.view(f"/jobs?{query}").text
        assert {release for release in (first, second) if release in shown} == expected, query
    assert "No job matches these filters." in text_of(site.view("/jobs?status=failed"))


def test_list_of_a_definition_has_columns_that_sort_it(site: Site) -> None:
    made = runs(site)
    shown = site.view("/jobs?definition=countdown").text
    assert re.findall(r"sort=([^\"]*)", shown) == ["process.train.number", "metric%3Aloss"]
    assert "process.train.number" not in site.view("/jobs").text
    for sort, expected in {
        "process.train.number": ["slow", "wild", "good"],
        "-process.train.number": ["good", "wild", "slow"],
        "metric%3Aloss": ["good", "slow", "wild"],
        "nothing": ["wild", "good", "slow"],
    }.items():
        assert order(site.view(f"/jobs?definition=countdown&sort={sort}").text, made) == expected, sort
    assert order(site.view("/jobs?q=goo").text, made) == ["good"]


def test_comparison_shows_values_side_by_side_and_curves_in_one_chart(site: Site) -> None:
    made = runs(site)
    link = "/compare?" + "&".join(f"job={made[title]}" for title in ("slow", "good"))
    answer = site.view(link)
    differs, _, same = text_of(answer).partition("The same in all")
    assert "last loss 1.5 0.25 process.train.number 3 10" in differs
    assert "taskDef countdown" in same
    assert "Creator admin" in same
    assert answer.text.count("<polyline") == 2
    assert "<title>step 1\nslow: 1.5\ngood: 0.25</title>" in answer.text
    assert f'href="{link}&amp;metric=loss&amp;scale=log"'.replace("&job", "&amp;job") in answer.text
    other = site.view(f"{link}&metric=loss&scale=log").text
    assert re.findall(r'points="([^"]*)"', other) != re.findall(r'points="([^"]*)"', answer.text)
    assert site.view("/compare").status_code == 400
    assert site.view("/compare?job=nothing").status_code == 404


def test_chosen_jobs_are_cancelled_and_deleted_in_one_request(site: Site) -> None:
    first, second, others = site.created(), site.created(), site.created(creator="ada")
    answer = site.send("/jobs?definition=countdown", {"job": [first, others], "action": "cancel"}, "user")  # type: ignore[dict-item]
    assert answer.status_code == 403
    assert f"2 jobs were not changed {first} : the job belongs to admin: only developers change jobs" in text_of(answer)
    answer = site.send("/jobs?definition=countdown", {"job": [first, second], "action": "cancel"})  # type: ignore[dict-item]
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?definition=countdown")
    for release in (first, second):
        site.status(release, "deleted")
    site.send("/jobs", {"job": [first, second], "action": "delete"})  # type: ignore[dict-item]
    site.until(lambda: order(site.view("/jobs").text, {"others": others, "": second, "-": first}) == ["others"], "one")


def test_list_finds_jobs_by_their_description(site: Site) -> None:
    made = {"found": site.created(description="batch of 32"), "other": site.created()}
    assert order(site.view("/jobs?q=OF%203").text, made) == ["found"]


def test_job_is_renamed_by_its_owner(site: Site) -> None:
    release = site.created(creator="ada")
    assert site.send(f"/jobs/{release}/title", {"title": " the <best> one "}).status_code == 303
    assert "the <best> one" in text_of(site.view("/jobs", "viewer"))
    assert site.send(f"/jobs/{release}/title", {"title": "x" * 201}).status_code == 422
    assert site.send(f"/jobs/{release}/title", {"title": ""}).status_code == 303
    assert site.get(f"/v1/jobs/{release}").json()["title"] == ""


def test_failed_job_has_the_line_of_its_log_for_callers_who_may_read_it(site: Site) -> None:
    release = site.created(creator="ada")
    site.cluster.logs[f"{release}-x2x9p"] = [
        "Traceback (most recent call last):\n",
        "  x\n",
        "ValueError: too high\n",
        "bye\n",
    ]
    site.cluster.pod(release, "Failed", exit_code=1)
    site.cluster.end(release, "Failed")
    assert site.status(release, "failed")["log_line"] == "ValueError: too high"
    for role, is_shown in {"admin": True, "developer": True, "user": False, "viewer": False}.items():
        assert bool(site.get(f"/v1/jobs/{release}", role).json()["log_line"]) == is_shown
        for path in ("/jobs", "/overview", f"/jobs/{release}"):
            assert ("ValueError: too high" in site.view(path, role).text) == is_shown, (role, path)

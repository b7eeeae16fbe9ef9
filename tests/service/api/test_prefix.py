"""The page and the API behind a proxy at https://train.example.com/mlpack/, which keeps or removes the prefix."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest

from tests.service.api.conftest import COUNTDOWN, FILLED
from tests.service.page.conftest import Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

URL = "https://train.example.com"
ROOT = "/mlpack"
_LINK = re.compile(r'(?:href|src|action|data-events|data-log)="([^"#]+)[^"]*"')
_STREAM_OR_FORM = re.compile("/events[?]|follow=true|/(cancel|delete|rerun|remove|sign-out|title|compare)$")


class Proxied(Site):
    """A site behind a proxy.

    Attributes:
        root: The prefix that the proxy keeps in paths; empty if the proxy removes the prefix.
    """

    def __init__(self, path: Path, root: str) -> None:
        super().__init__(path, url=f"{URL}{ROOT}/")
        self.root = root

    def sent(self, path: str) -> str:
        """Return the path that the server receives when a browser requests `path`."""
        assert path.startswith(f"{ROOT}/"), path
        return self.root + path.removeprefix(ROOT)

    def sign_in(self, role: str) -> str:
        if role not in self.sessions:
            form = {"token": self.tokens[role], "then": "/jobs"}
            answer = self.client.post(
                f"{self.root}/sign-in", data=form, headers={"Origin": URL}, follow_redirects=False
            )
            assert answer.headers["location"] == f"{ROOT}/jobs"
            cookie, *attributes = answer.headers["set-cookie"].split("; ")
            assert {"Path=/mlpack", "Secure", "HttpOnly"} <= set(attributes)
            self.sessions[role] = cookie
            self.client.cookies.clear()
        return self.sessions[role]


@pytest.fixture(params=[ROOT, pytest.param("", marks=pytest.mark.thorough)], ids=["left", "taken-away"])
def proxied(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Proxied]:
    site = Proxied(tmp_path / "server.db", request.param)
    with site.client:
        assert site.post(f"{site.root}/v1/definitions", COUNTDOWN).status_code == 201
        yield site


@pytest.mark.thorough
def test_all_links_of_the_page_are_below_the_prefix(proxied: Proxied) -> None:
    release = proxied.post(f"{proxied.root}/v1/jobs", FILLED).json()["release"]
    proxied.until(lambda: ("Job", release) in proxied.cluster.objects, "the Job")
    proxied.cluster.pod(release, "Running")
    store = proxied.server.store
    proxied.until(lambda: (job := store.job(release)) and job.started, "the start")
    start = proxied.view(f"{proxied.root}/")
    assert start.headers["location"] == f"{ROOT}/overview"
    todo, done = [f"{ROOT}/overview", f"{ROOT}/new/countdown", f"{ROOT}/sign-in"], set()
    while todo:
        path = todo.pop()
        done.add(path)
        if _STREAM_OR_FORM.search(path):
            continue
        answer = proxied.view(proxied.sent(path))
        assert answer.status_code in (200, 409), (path, answer.text)  # a job without a pod has no log
        if answer.headers["content-type"].startswith("text/html"):
            links = {html.unescape(link) for link in _LINK.findall(answer.text)}
            todo += sorted({link for link in links if not link.startswith("?")} - {*todo, *done})
    assert {
        f"{ROOT}/v1/jobs/{release}/logs?follow=true&tail=200",
        f"{ROOT}/openapi.json",
        f"{ROOT}/definitions/countdown",
    } <= done
    assert any(path.startswith(f"{ROOT}/v1/jobs/{release}/events?after=") for path in done)


def test_sign_in_and_sign_out_redirect_below_the_prefix(proxied: Proxied) -> None:
    answer = proxied.view(f"{proxied.root}/jobs?q=a", None)
    assert answer.headers["location"] == f"{ROOT}/sign-in?then=%2Fjobs%3Fq%3Da"
    answer = proxied.send(f"{proxied.root}/sign-out", role="viewer", Origin=URL)
    assert answer.headers["location"] == f"{ROOT}/sign-in"
    assert "Path=/mlpack;" in answer.headers["set-cookie"]
    assert proxied.send(f"{proxied.root}/sign-out", role="user", Origin="https://evil.example").status_code == 403


def test_api_locations_and_links_are_below_the_prefix(proxied: Proxied) -> None:
    key = {"Idempotency-Key": "k"}
    answers = [proxied.post(f"{proxied.root}/v1/jobs", FILLED, headers=key) for _ in range(2)]
    for answer in answers:  # the second answer repeats the first one
        assert answer.headers["location"] == f"{ROOT}/v1/jobs/{answer.json()['release']}"
    proxied.post(f"{proxied.root}/v1/jobs", FILLED)
    page = proxied.get(f"{proxied.root}/v1/jobs?limit=1")
    assert re.match(
        r"<https://train.example.com/mlpack/v1/jobs\?limit=1&cursor=\w+>; rel=\"next\"", page.headers["link"]
    )
    document = proxied.get(f"{proxied.root}/openapi.json").json()
    assert document["servers"] == [{"url": ROOT}]
    assert proxied.client.get("/healthz").status_code == 200  # a probe does not use the proxy

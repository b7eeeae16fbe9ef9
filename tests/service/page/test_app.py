"""Hostile forms, paths and queries sent to every view of the page: no answer has a status of 5xx."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.page.conftest import Site

FORM = "application/x-www-form-urlencoded"
FORMS = {
    "invalid UTF-8": (FORM, b"name=%ff&template=\xff&token=%ff"),
    "NUL": (FORM, b"name=a%00&key=%00&action=create&token=%00"),
    "many inputs": (FORM, b"a=1&" * 100_000),
    "large": (FORM, b"template=" + b"x" * 600_000),
    "an unknown charset": ("multipart/form-data; boundary=b; charset=none", b"--b\r\n\r\n\r\n--b--"),
}
NAMES = ("countdown", "%00")


def _views(site: Site, method: str) -> list[str]:
    routes = [route for route in site.client.app.routes if method in getattr(route, "methods", ())]
    paths = [re.sub(r"\{(\w+):int\}", "1", str(route.path)) for route in routes]
    return [path for path in paths if not path.startswith(("/v1/", "/schema")) and "/remove" not in path]


@pytest.mark.parametrize("what", FORMS)
def test_every_view_answers_hostile_forms(shared: Site, what: str) -> None:
    kind, content = FORMS[what]
    paths = _views(shared, "POST")
    assert len(paths) >= 7, paths
    for path in paths:
        target = re.sub(r"\{\w+:str\}", "countdown", path)
        for role in (None, "admin"):
            if target.endswith("/sign-out") and role:
                continue
            headers = {"Content-Type": kind, "Origin": shared.origin}
            headers |= {"Cookie": shared.sign_in(role)} if role else {}
            answer = shared.client.post(target, content=content, headers=headers, follow_redirects=False)
            assert answer.status_code < 500, (path, role, answer.text[-300:])
    assert [line for line in shared.log if "Traceback" in line] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_view_answers_hostile_names_and_queries(shared: Site, name: str) -> None:
    for path in _views(shared, "GET"):
        target = re.sub(r"\{\w+:str\}", name, path)
        for query in ("values_of=%00", "revision=" + "9" * 5_000, "cursor=WyJcdWQ4MDAiLCJcdWQ4MDAiXQ", "a&" * 5_000):
            answer = shared.view(f"{target}?{query}")
            assert answer.status_code < 500, (path, query[:40], answer.text[-300:])
    assert [line for line in shared.log if "Traceback" in line] == []


def test_views_link_to_configured_documentation(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Documentation" not in shared.view("/templates").text
    monkeypatch.setattr(shared.server, "documentation", "https://docs.example.com/mlpack/")
    assert 'href="https://docs.example.com/mlpack/service/templates/"' in shared.view("/templates").text
    assert 'href="https://docs.example.com/mlpack/"' in shared.view("/sign-in", None).text

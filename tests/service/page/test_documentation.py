from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from packager.service.page.documentation import documents
from tests.service.page.conftest import text_of

if TYPE_CHECKING:
    from tests.service.page.conftest import Site


def test_api_view_shows_each_operation_of_the_openapi_document(site: Site) -> None:
    view = site.view("/api", "viewer")
    text = text_of(view)
    document = site.get("/openapi.json").json()
    expected = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    assert [line for line in expected if line not in text] == []
    assert re.findall(r'(?:src|href)="https?://[^"]*', view.text) == []


def test_every_document_is_shown_and_its_links_lead_to_documents(shared: Site) -> None:
    views = {f"/help/{name}": shared.view(f"/help/{name}", "viewer") for name in documents() if ".png" not in name}
    assert len(views) > 40
    assert {view.status_code for view in views.values()} == {200}
    anchors = {name: set(re.findall(r' id="([^"]+)"', view.text)) for name, view in views.items()}
    missing = []
    for name, view in views.items():
        assert re.findall(r'src="https?://', view.text) == []
        for place, anchor in re.findall(r'(?:href|src)="(/help/[^"#]+)?(?:#([^"]+))?"', view.text):
            target = (place or name).rstrip("/")
            is_picture = target.endswith(".png") and shared.view(target).headers["content-type"] == "image/png"
            if not is_picture and (target not in views or (anchor and anchor not in anchors[target])):
                missing.append(f"{name}: {place}#{anchor}")
    assert missing == []


def test_document_shows_html_as_text_and_no_comment(shared: Site) -> None:
    text = shared.view("/help/commands", "viewer").text
    assert "<h1 id=" in text
    assert "Made by" not in text


@pytest.mark.parametrize("path", ["/help", "/help/", "/help/service/templates", "/help/service/templates/"])
def test_document_has_the_navigation_of_the_page(shared: Site, path: str) -> None:
    view = shared.view(path, "viewer")
    assert view.status_code == 200
    assert 'href="/definitions"' in view.text


@pytest.mark.parametrize(
    "path", ["nothing", "../pyproject.toml", "%2e%2e/README", "/etc/passwd", "pictures/no.png", "a%00b"]
)
def test_unknown_document_is_not_found(shared: Site, path: str) -> None:
    assert shared.view(f"/help/{path}", "viewer").status_code == 404


@pytest.mark.parametrize("path", ["/help", "/help/policy", "/help/pictures/job.png"])
def test_documents_are_shown_to_people_who_have_signed_in(shared: Site, path: str) -> None:
    assert shared.view(path, None).headers["location"].startswith("/sign-in")


@pytest.mark.parametrize(
    ("path", "guide"),
    [
        ("/overview", "service/page"),
        ("/new/countdown", "service/page"),
        ("/new-template", "service/templates"),
        ("/new-definition", "service/definitions"),
        ("/projects", "service/api"),
        ("/nowhere", ""),
    ],
)
def test_each_view_links_to_its_document(shared: Site, path: str, guide: str) -> None:
    headers = {"Accept": "text/html", "Cookie": shared.sign_in("admin")}
    view = shared.client.get(path, headers=headers, follow_redirects=False).text
    assert re.findall(r'<a href="([^"]*)">Documentation</a>', view) == [f"/help/{guide}/" if guide else "/help/"]
    assert not guide or guide in documents()


def test_configured_address_replaces_the_own_documents(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.server, "documentation", "https://docs.example.com/mlpack/")
    assert 'href="https://docs.example.com/mlpack/service/templates/"' in shared.view("/new-template").text
    assert 'href="https://docs.example.com/mlpack/"' in shared.view("/sign-in", None).text

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

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


@pytest.mark.parametrize("path", ["nothing", "%2e%2e/README", "/etc/passwd"])
def test_unknown_document_is_not_found(shared: Site, path: str) -> None:
    assert shared.view(f"/help/{path}", "viewer").status_code == 404


def test_configured_address_replaces_the_own_documents(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.server, "documentation", "https://docs.example.com/mlpack/")
    assert 'href="https://docs.example.com/mlpack/service/templates/"' in shared.view("/new-template").text
    assert 'href="https://docs.example.com/mlpack/"' in shared.view("/sign-in", None).text

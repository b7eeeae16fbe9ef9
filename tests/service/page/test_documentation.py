from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from packager.service.page.documentation import as_html

if TYPE_CHECKING:
    from tests.service.page.conftest import Site


@pytest.mark.parametrize("path", ["nothing", "%2e%2e/README", "/etc/passwd"])
def test_unknown_document_is_not_found(shared: Site, path: str) -> None:
    assert shared.view(f"/help/{path}", "viewer").status_code == 404


def test_configured_address_replaces_the_own_documents(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.server, "documentation", "https://docs.example.com/mlpack/")
    assert 'href="https://docs.example.com/mlpack/service/templates/"' in shared.view("/new-template").text
    assert 'href="https://docs.example.com/mlpack/"' in shared.view("/sign-in", None).text


def test_document_as_html_has_anchors_links_and_no_html_of_its_own() -> None:
    text = "<!-- made -->\n# A b\n\n## A b\n\n[in](x.md) [out](y.md) ![p](p.png) <b>\n"
    text += "\n| | c |\n|---|---|\n| 1 | 2 |\n\n    code\n"
    shown = as_html(text, {"x.md": "/help/x", "p.png": "/p.png"}.get)
    assert '<h1 id="a-b">A b</h1>' in shown
    assert '<h2 id="a-b-1">A b</h2>' in shown
    assert '<a href="/help/x">in</a> <a>out</a> <img src="/p.png" alt="p" /> &lt;b&gt;' in shown
    assert '<div class="wide" tabindex="0"><table>' in shown
    assert "<td></td>\n<th>c</th>" in shown
    assert '<pre tabindex="0"><code>code' in shown
    assert "made" not in shown

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.service.page.conftest import Site


@pytest.mark.parametrize("path", ["nothing", "%2e%2e/README", "/etc/passwd"])
def test_unknown_document_is_not_found(shared: Site, path: str) -> None:
    assert shared.view(f"/help/{path}", "viewer").status_code == 404


def test_configured_address_replaces_the_own_documents(shared: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared.server, "documentation", "https://docs.example.com/mlpack/")
    assert 'href="https://docs.example.com/mlpack/service/templates/"' in shared.view("/new-template").text
    assert 'href="https://docs.example.com/mlpack/"' in shared.view("/sign-in", None).text

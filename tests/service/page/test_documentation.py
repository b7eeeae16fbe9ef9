from __future__ import annotations

import re
from typing import TYPE_CHECKING

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

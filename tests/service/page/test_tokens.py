from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.service.page.conftest import text_of

if TYPE_CHECKING:
    from tests.service.page.conftest import Site


def test_token_is_created_and_shown_once(site: Site) -> None:
    answer = site.send("/tokens", {"name": "ada", "role": "user", "days": "7"})
    assert answer.status_code == 201
    text = re.search(r"mlp_[\w-]{43}", answer.text)
    assert text
    assert site.get("/v1/whoami", None, headers={"x-api-key": text[0]}).json()["name"] == "ada"
    assert text[0] not in site.view("/tokens").text
    assert "ada" in text_of(site.view("/tokens"))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"name": "a", "role": "root"}, "expected admin, developer, user or viewer, found 'root'"),
        (
            {"name": "a", "role": "user", "days": "x"},
            "expected a whole number of days from 1 to 3650, such as 90, found 'x'",
        ),
        ({"name": "a", "role": "user", "project": "none"}, "project 'none' not found"),
    ],
)
def test_invalid_token_form_keeps_its_inputs(shared: Site, form: dict[str, str], message: str) -> None:
    answer = shared.send("/tokens", form)
    assert answer.status_code == 422
    assert f'value="{form["name"]}"' in answer.text
    assert message in text_of(answer)

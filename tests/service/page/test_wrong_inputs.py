"""Wrong and hostile values in every field of the page's forms and of the API: errors in words, at their fields."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

import pytest

from tests.service.page.conftest import Site, text_of

if TYPE_CHECKING:
    from typing import Any

RAW = re.compile(r"\[\^?[A-Za-z]-|\(\?[!:=P]|matching regex|does not match|Expected `|\$\.|ValidationError|Traceback")
"""A pattern or the message of a library, which no person should have to read."""

HOSTILE = ("<script>alert(1)</script>", "x" * 70_000, "\x1b[2J\u202e\ud7ff\ufeff", "[&a [*a, *a], {")


@pytest.mark.parametrize(
    ("path", "form", "fields"),
    [
        ("/tokens", {"name": "a", "role": "user"}, ("name", "role", "project", "days")),
        ("/new/countdown", {}, ("/process/train/number", "/name", "/creator", "/project")),
    ],
)
def test_wrong_value_is_shown_in_words(shared: Site, path: str, form: dict[str, str], fields: tuple[str, ...]) -> None:
    for field, value in itertools.product(fields, HOSTILE):
        answer = shared.send(path, {**form, field: value, "action": "preview"})
        assert answer.status_code in (200, 201, 400, 403, 422), text_of(answer)
        assert not RAW.search(text_without_inputs(answer)), (field, RAW.search(text_without_inputs(answer)))
        assert "<script>alert" not in answer.text
        for name in re.findall(r'href="#([^"]+)"', answer.text):
            assert f'id="{name}"' in answer.text


def text_without_inputs(answer: Any) -> str:
    """Return the visible text of a view without the values in text areas, which are the user's own."""
    return text_of(type("View", (), {"text": re.sub(r"(?s)<textarea.*?</textarea>", "", answer.text)}))


BODIES = {
    "templates": {"name": "t", "template": "a: 1"},
    "definitions": {
        "name": "d",
        "task_template_name": "countdown-task",
        "user_values_description": "",
        "user_values_example": "",
    },
    "tokens": {"name": "t", "role": "user"},
}


@pytest.mark.parametrize(
    ("path", "body", "detail"),
    [
        ("templates", {"description": 5}, "expected text"),
        ("templates", {"template": 5}, "expected the template: Jinja over a list of Kubernetes objects"),
        ("templates", {"deprecated": "x"}, "expected true or false"),
        ("definitions", {"append_uuid": []}, "expected true or false, a whole number or text"),
        ("tokens", {"role": "x"}, "expected admin, developer, user or viewer"),
        ("tokens", {"days": 0}, "expected at least 1"),
    ],
)
def test_api_names_the_form_of_a_field(shared: Site, path: str, body: dict[str, object], detail: str) -> None:
    errors = shared.post(f"/v1/{path}", {**BODIES[path], **body}).json()["errors"]
    assert [error["detail"].partition(", found")[0] for error in errors] == [detail]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("jobs?limit=x", "limit: Expected `int`, got `str`"),
        ("jobs/a/logs?tail=x", "tail: Expected `int | null`, got `str`"),
        ("events?after=" + "1" * 500, "after: Expected `str` of length <= 64"),
    ],
)
def test_api_names_the_form_of_a_parameter(shared: Site, query: str, detail: str) -> None:
    assert shared.get(f"/v1/{query}").json()["detail"] == detail

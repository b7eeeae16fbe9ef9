from __future__ import annotations

from packager.service.page.registry import compared
from packager.service.use.answers import RegisteredTemplate
from tests.service import bodies
from tests.service.page.conftest import Site, text_of


def test_definition_shows_its_revisions_and_changes(digits: Site) -> None:
    changed = bodies.definition(user_values_description=bodies.DESCRIPTION.replace("Batch size", "Images in a batch"))
    assert digits.call("PUT", "/v1/definitions/digits", json=changed).status_code == 200
    text = text_of(digits.view("/definitions/digits", "viewer"))
    assert "Changes since revision 1 user_values_description" in text
    assert "removed batchSize: (Optional:integer) Batch size" in text
    assert "added batchSize: (Optional:integer) Images in a batch" in text
    assert "Revision 2 by admin" in text
    first = text_of(digits.view("/definitions/digits?revision=1"))
    assert "This revision is not the current one" in first
    assert "Changes since" not in first
    assert digits.call("DELETE", "/v1/definitions/digits").status_code == 204
    assert "This revision is not the current one" in text_of(digits.view("/definitions/digits"))


def test_template_shows_its_definitions_and_changes(digits: Site) -> None:
    source = bodies.TEMPLATE.replace("backoffLimit: 0", "backoffLimit: 1")
    body = {"name": "digits-task", "template": source, "deprecated": True}
    assert digits.call("PUT", "/v1/templates/digits-task", json=body).status_code == 200
    text = text_of(digits.view("/templates/digits-task", "viewer"))
    assert "- removed backoffLimit: 0 + added backoffLimit: 1" in text
    assert "Definitions digits" in text
    assert "deprecated" in text


def template(text: str) -> RegisteredTemplate:
    return RegisteredTemplate(name="t", template=text, revision=1, created="", author="ada")


def test_texts_over_the_line_limit_are_not_compared() -> None:
    old, new = template("\n" * 3000), template("a\n" * 3000)
    ((line,),) = [item.lines for item in compared(old, new)]
    assert line.text == "too long to compare: 3,000 and 3,000 lines"
    assert compared(old, old) == ()


def test_changed_lines_that_begin_with_the_marks_of_headers_are_shown() -> None:
    old, new = template("a\n---\n-- b\nc\n"), template("a\nc\n+++\n++ d\n")
    ((*lines,),) = [item.lines for item in compared(old, new)]
    assert [(line.mark, line.text) for line in lines[1:]] == [
        (" ", "a"),
        ("-", "---"),
        ("-", "-- b"),
        (" ", "c"),
        ("+", "+++"),
        ("+", "++ d"),
    ]
    assert lines[0].mark == "@"

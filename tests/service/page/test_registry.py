from __future__ import annotations

import json

from tests.service import bodies
from tests.service.page.conftest import Site, text_of

DEFINITION = {
    "name": "count-2",
    "task_template_name": "countdown-task",
    "description": "Counts",
    "user_values_description": "process:\r\n  train:\r\n    number: (Required:integer) Where to start\r\n",
    "user_values_example": "taskDef: count-2\r\nprocess:\r\n  train:\r\n    number: 5\r\n",
    "system_values": "image:\r\n  repository: registry.example.com/busybox\r\n  tag: '1'\r\n",
}


def test_definition_is_tried_registered_and_revised_by_form(site: Site) -> None:
    trial = site.send("/new-definition", {**DEFINITION, "action": "trial"}, "developer")
    assert trial.status_code == 200, text_of(trial)
    assert "The example makes these objects" in text_of(trial)
    assert "kind: Job" in text_of(trial)
    assert site.get("/v1/definitions/count-2").status_code == 404
    made = site.send("/new-definition", {**DEFINITION, "action": "register"}, "developer")
    assert (made.status_code, made.headers["location"]) == (303, "/definitions/count-2")
    changed = {
        **DEFINITION,
        "user_values_description": DEFINITION["user_values_description"].replace("Where", "Number"),
        "revision": "1",
    }
    assert site.send("/definitions/count-2/edit", changed, "developer").status_code == 303
    text = text_of(site.view("/definitions/count-2"))
    assert "Changes since revision 1 user_values_description" in text
    assert "- removed number: (Required:integer) Where to start" in text
    assert "+ added number: (Required:integer) Number to start" in text
    assert "Revision 2 by developer" in text
    first = text_of(site.view("/definitions/count-2?revision=1"))
    assert "This revision is not the current one" in first
    assert "Changes since" not in first
    late = site.send("/definitions/count-2/edit", changed, "developer")
    assert late.status_code == 412
    assert "expected revision 1, found 2" in text_of(late)
    assert site.send("/definitions/count-2/remove", role="developer").status_code == 303
    assert "This revision is not the current one" in text_of(site.view("/definitions/count-2"))


def test_errors_of_a_definition_are_shown_at_their_fields(shared: Site) -> None:
    form = {**DEFINITION, "user_values_description": "a: b", "system_values": "x: [", "application": "a b"}
    answer = shared.send("/new-definition", form)
    assert answer.status_code == 422
    for name in ("user_values_description", "system_values", "application"):
        assert f'href="#{name.replace("_", "_5f.")}"' in answer.text
    assert "(Required) or (Optional)" in text_of(answer)
    assert "a: b" in answer.text
    long = shared.send("/new-definition", {**DEFINITION, "name": "x" * 80})
    assert long.status_code == 422
    assert "54" in text_of(long)


def test_template_is_tried_revised_and_registered_by_form(digits: Site) -> None:
    form = {
        "template": bodies.TEMPLATE.replace("backoffLimit: 0", "backoffLimit: 1"),
        "revision": "1",
        "description": "x",
    }
    trial = digits.send("/templates/digits-task/edit", {**form, "action": "trial"})
    assert "digits: its example works" in text_of(trial)
    broken = digits.send("/templates/digits-task/edit", {**form, "template": "{% include 'x' %}", "action": "trial"})
    assert broken.status_code == 422
    assert "include" in text_of(broken)
    unfit = digits.send("/templates/digits-task/edit", {**form, "template": "a: {{ nothing }}", "action": "trial"})
    assert "digits: with the example filled in: " in text_of(unfit)
    assert "nothing is not defined" in text_of(unfit)
    assert digits.send("/templates/digits-task/edit", form).status_code == 303
    text = text_of(digits.view("/templates/digits-task"))
    assert "- removed backoffLimit: 0 + added backoffLimit: 1" in text.replace("&#39;", "'")
    assert "Definitions digits" in text
    refused = digits.send("/templates/digits-task/remove")
    assert refused.status_code == 409
    assert "is used by the definitions digits" in text_of(refused)
    made = digits.send("/new-template", {"name": "t2", "template": bodies.TEMPLATE, "deprecated": "1"})
    assert made.headers["location"] == "/templates/t2"
    assert "deprecated" in text_of(digits.view("/templates/t2"))
    assert "t2" not in digits.view("/new-definition").text
    assert digits.send("/templates/t2/remove").status_code == 303


def test_hostile_template_sources_are_escaped(site: Site) -> None:
    hostile = "</pre><script>alert(1)</script>{{7*7}}\x1b[2J"
    body = {"name": "h", "template": f"a: {json.dumps(hostile)}", "description": hostile}
    assert site.post("/v1/templates", body).status_code == 201
    for path in ("/templates", "/templates/h", "/templates/h/edit"):
        shown = site.view(path).text
        assert "<script>alert" not in shown, path
    assert "{{7*7}}" in site.view("/templates/h").text

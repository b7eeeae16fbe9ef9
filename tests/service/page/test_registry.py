from __future__ import annotations

import html
import json
import re

import pytest

from packager.service.page.html import anchor
from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN
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


def test_definition_is_registered_over_the_revision_of_another_caller(site: Site) -> None:
    form = {**DEFINITION, "name": "countdown", "description": "Mine", "revision": "1"}
    form["user_values_example"] = DEFINITION["user_values_example"].replace("count-2", "countdown")
    other = {**COUNTDOWN, "description": "Theirs"}
    assert site.call("PUT", "/v1/definitions/countdown", "developer", json=other).status_code == 200
    late = site.send("/definitions/countdown/edit", form)
    assert late.status_code == 412
    assert "Revision 2 was registered by developer after you opened this form" in text_of(late)
    assert 'href="/definitions/countdown?revision=2#changes"' in late.text
    assert 'name="revision" value="2"' in late.text
    assert "Register revision 3" in text_of(late)
    assert 'value="Mine"' in late.text
    assert site.send("/definitions/countdown/edit", {**form, "revision": "2"}).status_code == 303
    assert site.get("/v1/definitions/countdown").json()["description"] == "Mine"


def test_template_is_registered_over_the_revision_of_another_caller(site: Site) -> None:
    template = site.get("/v1/templates/countdown-task").json()["template"]
    body = {"name": "countdown-task", "template": template, "description": "Theirs"}
    assert site.call("PUT", "/v1/templates/countdown-task", json=body).status_code == 200
    form = {"template": template, "description": "Mine", "revision": "1"}
    late = site.send("/templates/countdown-task/edit", form)
    assert late.status_code == 412
    assert "Revision 2 was registered by admin after you opened this form" in text_of(late)
    assert 'href="/templates/countdown-task?revision=2#changes"' in late.text
    assert 'name="revision" value="2"' in late.text
    assert "Register revision 3" in text_of(late)
    assert 'value="Mine"' in late.text
    assert site.send("/templates/countdown-task/edit", {**form, "revision": "2"}).status_code == 303
    assert site.get("/v1/templates/countdown-task").json()["description"] == "Mine"


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


@pytest.mark.parametrize("name", ["a b", "x" * 80, ""])
@pytest.mark.parametrize("action", ["register", "trial"])
def test_wrong_name_hides_no_other_error_of_a_definition(shared: Site, name: str, action: str) -> None:
    others = {"user_values_description": "a: b", "system_values": "x: [", "task_template_name": "absent"}
    form = {**DEFINITION, **others, "description": "x" * 5000}
    answer = shared.send("/new-definition", {**form, "name": name, "action": action})
    assert answer.status_code == 422
    for key in ("name", "description", *others):
        assert f'href="#{anchor(key)}"' in answer.text
    assert "5 problems in the form" in text_of(answer)
    alone = shared.send("/new-definition", {**DEFINITION, "name": name, "action": action})
    assert "1 problem in the form" in text_of(alone)


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


def test_template_with_misspelt_field_is_shown_again_with_its_line(site: Site) -> None:
    template = bodies.TEMPLATE.replace("restartPolicy", "restartPolcy")
    for action in ("trial", "register"):
        answer = site.send("/new-template", {"name": "t3", "template": template, "action": action})
        assert answer.status_code == 422
        assert re.search(r"line \d+: .*unknown field 'restartPolcy'", text_of(answer))
        assert "The template is valid" not in text_of(answer)
        assert "a template must not have this field" not in text_of(answer)
    assert site.get("/v1/templates/t3").status_code == 404


def test_forms_begin_with_examples_that_can_be_registered(site: Site) -> None:
    for path in ("/new-template", "/new-definition"):
        form = form_of(site.view(path).text)
        assert site.send(path, {**form, "action": "trial"}).status_code == 200
        assert site.send(path, {**form, "action": "register"}).status_code == 303


def test_form_of_a_definition_offers_packages_overlays_and_options(site: Site) -> None:
    text = site.view("/new-definition").text
    assert '<option value="hello-mpi"></option>' in text
    assert '<option value="single-node"></option>' in text
    assert 'name="option:gpu"' in text
    named = {"name": "hello", "source": "none", "option:gpu": "1"}
    kept = site.send("/new-definition", {**named, "action": "trial"})
    assert kept.status_code == 422
    assert re.search(r'name="option:gpu" value="1" checked', kept.text)


def form_of(text: str) -> dict[str, str]:
    """Return the inputs of a form of the registry, as a browser sends them."""
    areas = re.findall(r'<textarea class="mono" name="([^"]+)"[^>]*>\n(.*?)</textarea>', text, re.DOTALL)
    lines = re.findall(r'<input name="([^"]+)" value="([^"]*)"', text)
    chosen = re.findall(r'<select name="([^"]+)".*?<option selected>([^<]*)</option>', text, re.DOTALL)
    return {name: html.unescape(value) for name, value in (*areas, *lines, *chosen)}


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/new-definition", "user"),
        ("/definitions/countdown/edit", "user"),
        ("/definitions/countdown/remove", "user"),
        ("/new-template", "developer"),
        ("/templates/countdown-task/edit", "developer"),
        ("/templates/countdown-task/remove", "developer"),
        ("/tokens", "developer"),
        ("/new/countdown", "viewer"),
    ],
)
def test_form_is_refused_without_the_required_role(shared: Site, path: str, role: str) -> None:
    before = [shared.get(path).json() for path in ("/v1/definitions", "/v1/templates")]
    assert shared.send(path, {**DEFINITION, "template": "a: 1"}, role).status_code == 403
    assert [shared.get(path).json() for path in ("/v1/definitions", "/v1/templates")] == before


def test_summary_of_errors_names_the_labels_of_fields(shared: Site) -> None:
    form = {**DEFINITION, "user_values_description": "a: b: c", "action": "trial"}
    summary = text_of(shared.send("/new-definition", form)).partition("Name")[0]
    assert "Values that users fill in: line 1, column 5: not valid YAML" in summary
    assert "user_values_description" not in summary


def test_summaries_of_the_api_show_names_as_code(shared: Site) -> None:
    view = shared.view("/api").text
    assert "with <code>dry_run</code>, return" in view
    assert "`" not in view


def test_hostile_template_sources_are_escaped(site: Site) -> None:
    hostile = "</pre><script>alert(1)</script>{{7*7}}\x1b[2J"
    body = {"name": "h", "template": f"a: {json.dumps(hostile)}", "description": hostile}
    assert site.post("/v1/templates", body).status_code == 201
    for path in ("/templates", "/templates/h", "/templates/h/edit"):
        shown = site.view(path).text
        assert "<script>alert" not in shown, path
    assert "{{7*7}}" in site.view("/templates/h").text

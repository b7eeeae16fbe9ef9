from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from packager.base.errors import UnreachableError
from tests.service import bodies
from tests.service.page.conftest import Site, text_of

if TYPE_CHECKING:
    import pytest

ENDPOINTS = """\
- {endpoint: "s3://bucket/digits/", type: dataset}
- endpoint: https://hooks.example.com/v1/ml/train/callback
  type: event
  headers: {x-api-key: secret-word}
"""
# The inputs that a browser sends for `bodies.filled`.
FORM = {
    "/description": "Trains on digits",
    "/name": "demo",
    "/creator": "ada",
    "/endpoints": ENDPOINTS,
    "/process/train/maxStep": "100",
    "/process/train/saveStep": "20",
    "/process/eval/batchSize": "10",
    "/process/model": "",
    "/process/export/signatureMap": "predict_images",
    "/resources/cpu": "200m",
    "/resources/memory": "512Mi",
}


def names_in(answer: Any) -> list[str]:
    """Return the names of the visible inputs of a form, in order."""
    names = re.findall(r'<(?:input|select|textarea) (?!type="hidden")[^>]*?name="([^"]*)"', answer.text)
    return [name for name in names if name.startswith("/")]


def test_form_creates_a_job_and_hides_secrets(digits: Site) -> None:
    answer = digits.send("/new/digits", FORM)
    assert answer.status_code == 303, text_of(answer)
    release = answer.headers["location"].removeprefix("/jobs/")
    job = digits.get(f"/v1/jobs/{release}").json()
    expected = bodies.filled()
    del expected["process"]["model"]  # empty inputs are left out
    expected["endpoints"][1]["headers"] = {"x-api-key": "***"}
    assert job["values"] == expected
    assert "secret-word" not in digits.view(f"/jobs/{release}").text
    assert "secret-word" not in digits.view(f"/new/digits?values_of={release}").text


def test_required_values_come_first_with_the_example_as_a_hint(digits: Site) -> None:
    answer = digits.view("/new/digits")
    names = names_in(answer)
    assert names[:4] == ["/description", "/name", "/creator", "/endpoints"]
    required, optional = answer.text.split("<h2>Optional</h2>")
    assert "/process/export/signatureMap" in required
    assert "/process/train/maxStep" in optional
    assert "placeholder=" not in required + optional
    assert "Example: <code>predict_images</code>" in required
    assert "Example: <code>2048Mi</code>" in optional
    assert "Steps, 1000 by default" in text_of(answer)
    assert 'name="/creator" value="admin"' in required


def test_example_replaces_inputs_only_after_a_question(digits: Site) -> None:
    empty = {"action": "example", "/creator": "ada", "/process/train/maxStep": ""}
    filled = digits.send("/new/digits", empty).text
    assert 'value="predict_images"' in filled
    assert 'value="2048Mi"' in filled
    assert 'value="ada"' in filled
    asked = digits.send("/new/digits", {**empty, "/process/train/maxStep": "7"})
    assert "Replace what you have filled in with the example?" in text_of(asked)
    assert 'value="7"' in asked.text
    replaced = digits.send("/new/digits", {**empty, "/process/train/maxStep": "7", "action": "replace"}).text
    assert 'value="predict_images"' in replaced
    assert 'value="7"' not in replaced


def test_errors_are_shown_at_their_fields_and_inputs_are_kept(digits: Site) -> None:
    form = {
        **FORM,
        "/process/train/saveStep": "",
        "/resources/memory": "lots",
        "/process/eval/batchSize": "ten",
        "/creator": "a b",
    }
    form["/endpoints"] = ""
    answer = digits.send("/new/digits", form)
    assert answer.status_code == 422
    for name, text in {
        "/process/train/saveStep": "is missing",
        "/resources/memory": "expected a quantity such as 500m or 4Gi, found &#39;lots&#39;",
        "/process/eval/batchSize": "expected a whole number, found &#39;ten&#39;",
        "/creator": "expected a name such as nightly",
    }.items():
        tag = next(tag for tag in re.findall(r"<input [^>]*>", answer.text) if f'name="{name}"' in tag)
        assert 'aria-invalid="true"' in tag
        about = re.search(r'aria-describedby="(?:\S+ )?\s*(\S+-error)"', tag)
        assert about, tag
        error = re.search(rf'id="{re.escape(about[1])}">([^<]*)<', answer.text)
        assert error
        assert error[1].startswith(text)
        assert f'href="#{about[1].removesuffix("-error")}"' in answer.text
    assert "endpoints: needs an item of type &#39;dataset&#39;" in answer.text
    assert 'value="lots"' in answer.text
    assert digits.get("/v1/jobs").json()["items"] == []


def test_preview_shows_manifests_and_creates_nothing(digits: Site) -> None:
    answer = digits.send("/new/digits", {**FORM, "action": "preview"})
    assert answer.status_code == 200
    text = text_of(answer)
    assert "kind: PersistentVolumeClaim" in text
    assert "secret-word" not in text.replace("x-api-key: secret-word", "", 1)  # in its own input only
    assert digits.get("/v1/jobs").json()["items"] == []
    assert 'value="demo"' in answer.text


def key_in(answer: Any) -> str:
    """Return the idempotency key of the form in a view."""
    key = re.search(r'name="key" [^>]*?value="(\w+)"', answer.text)
    assert key
    return key[1]


def test_refusals_of_the_cluster_are_shown_in_the_form(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"key": key_in(site.view("/new/countdown")), "/process/train/number": "3"}
    monkeypatch.setattr(site.cluster, "refused", {"Job": "admission webhook denied the request: no budget"})
    refused = site.send("/new/countdown", form)
    assert refused.status_code == 422
    assert "admission webhook denied the request: no budget" in text_of(refused)
    assert 'value="3"' in refused.text
    monkeypatch.setattr(site.cluster, "error", UnreachableError("the cluster does not answer: refused"))
    away = site.send("/new/countdown", form)
    assert (away.status_code, key_in(away)) == (503, form["key"])
    assert "the cluster does not answer" in text_of(away)
    preview = site.send("/new/countdown", {**form, "action": "preview"})
    assert preview.status_code == 200
    assert "not checked against the cluster: the cluster does not answer: refused" in text_of(preview)
    assert "kind: Job" in text_of(preview)
    monkeypatch.setattr(site.cluster, "error", None)
    monkeypatch.setattr(site.cluster, "refused", {})
    assert site.send("/new/countdown", {**form, "key": key_in(away)}).status_code == 303

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.service import bodies
from tests.service.api.conftest import COUNTDOWN

if TYPE_CHECKING:
    from tests.service.api.conftest import Service

TEMPLATE = {"name": "own", "template": "kind: {{ global.release }}"}


def test_templates_have_revisions(service: Service) -> None:
    names = [item["name"] for item in service.get("/v1/templates", "viewer").json()["items"]]
    assert names == ["countdown-task", "non-distributed-task", "single-gpu-task"]
    added = service.post("/v1/templates", TEMPLATE)
    assert (added.status_code, added.headers["location"], added.json()["revision"]) == (201, "/v1/templates/own", 1)
    assert service.post("/v1/templates", TEMPLATE).status_code == 409
    shown = service.get("/v1/templates/own", "viewer")
    assert shown.headers["etag"] == '"1"'
    changed = {**TEMPLATE, "description": "new"}
    put = service.call("PUT", "/v1/templates/own", json=changed, headers={"If-Match": '"1"'})
    assert (put.status_code, put.json()["revision"]) == (200, 2)
    assert service.call("PUT", "/v1/templates/own", json=changed, headers={"If-Match": '"1"'}).status_code == 412
    assert service.call("PUT", "/v1/templates/countdown-task", json=changed).status_code == 422
    assert service.call("PUT", "/v1/templates/no", json={**TEMPLATE, "name": "no"}).status_code == 404
    revisions = service.get("/v1/templates/own/revisions").json()["items"]
    assert [item["revision"] for item in revisions] == [2, 1]
    assert service.get("/v1/templates/own/revisions/1").json()["description"] == ""
    missing = service.get("/v1/templates/own/revisions/3")
    assert (missing.status_code, missing.json()["detail"]) == (404, "revision 3 of template 'own' not found")
    missing = service.get("/v1/templates/other/revisions/3")
    assert (missing.status_code, missing.json()["detail"]) == (404, "template 'other' not found")
    assert service.call("DELETE", "/v1/templates/own").status_code == 204
    assert service.get("/v1/templates/own").status_code == 404
    assert service.call("DELETE", "/v1/templates/own").status_code == 404
    assert service.post("/v1/templates", TEMPLATE).json()["revision"] == 3


def test_unchanged_content_makes_no_new_revision(service: Service) -> None:
    service.post("/v1/templates", TEMPLATE)
    same = service.call("PUT", "/v1/templates/own", json=TEMPLATE)
    assert (same.status_code, same.json()["revision"], same.headers["etag"]) == (200, 1, '"1"')
    assert service.call("PUT", "/v1/definitions/countdown", json=COUNTDOWN).json()["revision"] == 1
    assert len(service.get("/v1/definitions/countdown/revisions").json()["items"]) == 1
    late = service.call("PUT", "/v1/templates/own", json=TEMPLATE, headers={"If-Match": '"2"'})
    assert late.status_code == 412


def test_dry_run_registers_nothing(digits: Service) -> None:
    tried = digits.post("/v1/templates?dry_run=true", TEMPLATE)
    outcome = tried.json()
    assert (tried.status_code, outcome["outcome"], outcome["definitions"]) == (200, "created", {})
    assert digits.get("/v1/templates/own").status_code == 404
    unfit = digits.post("/v1/templates?dry_run=true", {"name": "digits-task", "template": "a: {{ nothing }}"}).json()
    assert unfit["outcome"] == "changed"
    assert "nothing is not defined" in unfit["definitions"]["digits"][0]
    same = digits.post("/v1/definitions?dry_run=true", bodies.definition()).json()
    assert (same["outcome"], same["warnings"]) == ("unchanged", [])
    assert [item["kind"] for item in same["manifests"]] == ["PersistentVolumeClaim", "ConfigMap", "Job"]
    new = digits.post("/v1/definitions?dry_run=true", bodies.definition(name="new"), "developer")
    assert (new.status_code, new.json()["outcome"]) == (200, "created")
    assert digits.get("/v1/definitions/new").status_code == 404
    assert digits.post("/v1/definitions?dry_run=true", bodies.definition(), "user").status_code == 403
    assert digits.post("/v1/templates?dry_run=true", TEMPLATE, "developer").status_code == 403
    wrong = digits.post("/v1/definitions?dry_run=true", bodies.definition(task_template_name="no"))
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/task_template_name")


def test_template_that_breaks_a_definition_is_registered_with_a_warning(digits: Service) -> None:
    body = {"name": "digits-task", "template": "a: {{ nothing }}"}
    tried = digits.post("/v1/templates?dry_run=true", body).json()["definitions"]["digits"]
    put = digits.call("PUT", "/v1/templates/digits-task", json=body)
    assert (put.status_code, put.json()["revision"]) == (200, 2)
    assert put.json()["warnings"] == [f"definition 'digits': {problem}" for problem in tried]
    assert digits.get("/v1/templates/digits-task").json()["warnings"] == []


def test_definitions_have_revisions_and_protect_their_template(digits: Service) -> None:
    shown = digits.get("/v1/definitions/digits", "viewer").json()
    assert shown["user_values_description"] == bodies.definition()["user_values_description"]
    assert (shown["revision"], shown["creator"], shown["warnings"]) == (1, "admin", [])
    assert digits.call("DELETE", "/v1/templates/digits-task").status_code == 409
    put = digits.call("PUT", "/v1/definitions/digits", "developer", json=bodies.definition(description="new"))
    assert (put.status_code, put.json()["revision"]) == (200, 2)
    assert len(digits.get("/v1/definitions/digits/revisions").json()["items"]) == 2
    assert digits.get("/v1/definitions/digits/revisions/1").json()["description"] == "Digits on CPUs"
    missing = digits.get("/v1/definitions/digits/revisions/9", "viewer")
    assert (missing.status_code, missing.json()["detail"]) == (404, "revision 9 of definition 'digits' not found")
    missing = digits.get("/v1/definitions/other/revisions/9", "viewer")
    assert (missing.status_code, missing.json()["detail"]) == (404, "definition 'other' not found")
    assert digits.call("DELETE", "/v1/definitions/digits", "developer").status_code == 204
    assert digits.call("DELETE", "/v1/templates/digits-task").status_code == 204
    assert digits.post("/v1/jobs", bodies.filled()).status_code == 422


def test_definition_gets_a_unique_name_with_append_uuid(service: Service) -> None:
    names = {service.post("/v1/definitions", {**COUNTDOWN, "append_uuid": 1}).json()["name"] for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("countdown-") and len(name) == 18 for name in names)
    assert service.post("/v1/jobs", {"taskDef": names.pop(), "process": {"train": {"number": 1}}}).status_code == 201

from __future__ import annotations

from tests.service import bodies
from tests.service.page.conftest import Site, text_of


def test_definition_shows_its_revisions(digits: Site) -> None:
    changed = bodies.definition(user_values_description=bodies.DESCRIPTION.replace("Batch size", "Images in a batch"))
    assert digits.call("PUT", "/v1/definitions/digits", json=changed).status_code == 200
    text = text_of(digits.view("/definitions/digits", "viewer"))
    assert "batchSize: (Optional:integer) Images in a batch" in text
    assert "Revision 2 by admin" in text
    first = text_of(digits.view("/definitions/digits?revision=1"))
    assert "This revision is not the current one" in first
    assert "batchSize: (Optional:integer) Batch size" in first
    assert digits.view("/definitions/digits?revision=9").status_code == 404
    assert digits.view("/definitions/digits?revision=x").status_code == 400
    assert digits.call("DELETE", "/v1/definitions/digits").status_code == 204
    assert "This revision is not the current one" in text_of(digits.view("/definitions/digits"))


def test_template_shows_its_definitions(digits: Site) -> None:
    source = bodies.TEMPLATE.replace("backoffLimit: 0", "backoffLimit: 1")
    body = {"name": "digits-task", "template": source, "deprecated": True}
    assert digits.call("PUT", "/v1/templates/digits-task", json=body).status_code == 200
    text = text_of(digits.view("/templates/digits-task", "viewer"))
    assert "backoffLimit: 1" in text
    assert "Definitions digits" in text
    assert "deprecated" in text

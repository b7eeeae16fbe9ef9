from __future__ import annotations

from typing import TYPE_CHECKING

from packager.service.api.reference import Input, operations

if TYPE_CHECKING:
    from tests.service.api.conftest import Service


def test_operations_contain_parameters_and_fields_of_bodies(service: Service) -> None:
    by_name = {f"{item.method} {item.path}": item for item in operations(service.get("/openapi.json").json())}
    adding = by_name["POST /v1/templates"]
    assert Input("name", "body", "text (at most 54)", required=True, text="") in adding.inputs
    assert Input("dry_run", "query", "boolean", required=False, text="") in adding.inputs
    assert adding.answer == "RegisteredTemplate"
    assert "revision" in adding.fields
    token = {entry.name: entry for entry in by_name["POST /v1/tokens"].inputs}
    assert token["role"].form == "viewer, user, developer, admin"

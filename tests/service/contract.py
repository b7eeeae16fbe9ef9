"""Compares every response in a test with the OpenAPI document: status, content type, headers and body."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
from litestar.testing import TestClient

from packager.service.api.access import server_of

PROBLEM = "application/problem+json"


class Contract:
    """The responses that an OpenAPI document describes.

    Attributes:
        document: The document; its schemas forbid properties that they do not name.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        for schema in document["components"]["schemas"].values():
            _close(schema)
        self._operations = [
            (method.upper(), re.compile(re.sub(r"\\{[^}]+\\}", "[^/]+", re.escape(path))), path, operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
        ]
        self._validators: dict[tuple[str, ...], Any] = {}

    def operation(self, method: str, path: str) -> tuple[str, dict[str, Any]] | None:
        """Return the path template and the operation that match a request; None if there is none."""
        for known, pattern, template, operation in self._operations:
            if known == method and pattern.fullmatch(path):
                return template, operation
        return None

    def check(self, method: str, path: str, response: Any) -> None:
        """Check a response. Raises AssertionError or ValidationError if it does not match the document."""
        operation = self.operation(method, path)
        kind = response.headers.get("content-type", "").partition(";")[0]
        if operation is None:
            if path.startswith("/v1/"):
                assert (response.status_code, kind) in {(404, PROBLEM), (405, PROBLEM)}, f"{method} {path}"
            return
        where = f"{method} {operation[0]}: {response.status_code} {kind}"
        responses = operation[1]["responses"]
        assert str(response.status_code) in responses, f"{where}: the status is not in the OpenAPI document"
        content = responses[str(response.status_code)].get("content", {})
        if not content:
            assert response.content == b"", where
            return
        assert kind in content, f"{where}: the content type is not in the OpenAPI document"
        if "json" in kind:
            key = (method, operation[0], str(response.status_code), kind)
            if key not in self._validators:
                self._validators[key] = self._validator(content[kind]["schema"])
            self._validators[key].validate(response.json())
        if response.status_code in (429, 503) and kind == PROBLEM:
            assert response.headers["retry-after"].isdecimal(), where
        if response.status_code == 401:
            assert response.headers["www-authenticate"].startswith("Bearer"), where

    def _validator(self, schema: dict[str, Any]) -> Any:
        root = {"components": self.document["components"], **schema}
        return jsonschema.Draft202012Validator(root)


def _close(schema: Any) -> None:
    """Forbid properties that a schema does not name, at every depth."""
    if isinstance(schema, dict):
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for value in schema.values():
            _close(value)
    elif isinstance(schema, list):
        for item in schema:
            _close(item)


_CONTRACTS: dict[str, Contract] = {}
"""The contract for each prefix: a document takes longer to make than most tests take."""


class CheckedClient(TestClient[Any]):
    """A client that checks each response. It cannot read endless streams."""

    @property
    def contract(self) -> Contract:
        """The OpenAPI document of the server, which depends only on the prefix of its paths."""
        root = server_of(self.app.state).root
        if root not in _CONTRACTS:
            _CONTRACTS[root] = Contract(super().request("GET", "/openapi.json").json())
        return _CONTRACTS[root]

    def request(self, method: Any, url: Any, **options: Any) -> Any:
        """Send a request, and return the checked response."""
        response = super().request(method, url, **options)
        if "openapi.json" not in str(url):
            self.contract.check(str(method), response.request.url.path, response)
        return response

"""The OpenAPI document: the types of the routes, and the problems and security schemes of all operations."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from litestar import MediaType
from litestar.openapi.datastructures import ResponseSpec

from packager.base import jsonio
from packager.kubernetes.manifest import listing
from packager.service.failures import TITLES

if TYPE_CHECKING:
    from litestar import Litestar

PROBLEM = "application/problem+json"
"""The media type of problems (RFC 9457)."""

_PAGES = re.compile(r"Page_packager\.service\.use\.answers\.(\w+)_")
"""The names of lists in the document of litestar."""

_OPEN = ("/healthz", "/readyz")
_TEXT = {"type": "string"}
_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_PROBLEM_SCHEMA = {
    "type": "object",
    "description": "A problem, as in RFC 9457.",
    "properties": {
        "type": {"type": "string", "pattern": "^urn:mlpack:problem:[a-z-]+$"},
        "title": _TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": _TEXT,
        "instance": _TEXT,
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "pointer": {"type": "string", "description": "Where in the body, as a JSON pointer (RFC 6901)."},
                    "detail": _TEXT,
                    "hint": _TEXT,
                },
                "required": ["pointer", "detail"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["type", "title", "status", "detail", "instance", "errors"],
    "additionalProperties": False,
}


def answer(kind: type[object], description: str, media_type: MediaType = MediaType.JSON) -> ResponseSpec:
    """Return the specification of an answer that a route gives to some requests."""
    return ResponseSpec(kind, generate_examples=False, media_type=media_type, description=description)


def document(app: Litestar, root: str = "") -> dict[str, object]:
    """Return the OpenAPI document of an application, whose paths are below `root`."""
    content: dict[str, Any] = json.loads(_PAGES.sub(r"\1List", jsonio.compact(app.openapi_schema.to_schema())))
    content["servers"] = [{"url": root or "/"}]
    components = content.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = _PROBLEM_SCHEMA
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    titles = {
        str(one): "; ".join(title for code, title in TITLES.values() if code == one) for one, _ in TITLES.values()
    }
    for path, item in content["paths"].items():
        for method, operation in item.items():
            described = operation["responses"]
            if path.endswith("/events"):
                described["200"]["content"]["text/event-stream"] = {"schema": _TEXT}
            for status in _statuses(path, method):
                if status != "503" or status not in described:  # readyz describes this answer itself
                    described[status] = {"description": titles[status], "content": {PROBLEM: {"schema": _PROBLEM}}}
            for parameter in operation.get("parameters", ()):
                # a parameter that is sent is never null
                kinds = [kind for kind in listing(parameter["schema"].get("oneOf")) if kind != {"type": "null"}]
                parameter["schema"] = kinds[0] if len(kinds) == 1 else parameter["schema"]
            operation["security"] = [] if path in _OPEN else [{"token": []}, {"key": []}]
    return content


@lru_cache(maxsize=8)
def content(app: Litestar, root: str) -> bytes:
    """Return the OpenAPI document of an application, whose paths are below `root`, as JSON."""
    return jsonio.compact(document(app, root)).encode()


def _statuses(path: str, method: str) -> list[str]:
    """Return the statuses of the problems that an operation may answer with."""
    if path in _OPEN:
        return ["400", "500"]
    statuses = ["400", "401", "403", "429", "500", "503"]
    if "{" in path:
        statuses.append("404")
    if method in ("post", "put", "patch"):
        statuses += ["409", "413", "415", "422"]
    if method == "put":
        statuses.append("412")
    if method == "delete" or path.endswith("/logs"):
        statuses += ["409", "422"]
    return sorted(statuses)

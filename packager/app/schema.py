"""Returns the JSON Schema of specs."""

from __future__ import annotations

from typing import Any

from packager.spec.schema import json_schema


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a model spec, for editors."""
    return json_schema()

"""Tests the types of a spec."""

from __future__ import annotations

from packager.base.values import Fields
from packager.modelspec.model import Spec


def _types(base: type) -> list[type]:
    children: list[type] = base.__subclasses__()
    return [kind for child in children for kind in (child, *_types(child))]


def test_parts_of_a_spec_have_evaluated_annotations() -> None:
    """Msgspec compiles an annotation that is a text when it reads the first spec, which a small build notices."""
    parts = [kind for kind in _types(Fields) if kind.__module__.startswith(("packager.base", "packager.workloads"))]
    assert len(parts) > 15
    postponed = [
        f"{kind.__qualname__}.{name}"
        for kind in (Spec, *parts)
        for name, value in vars(kind).get("__annotations__", {}).items()
        if isinstance(value, str)
    ]
    assert not postponed

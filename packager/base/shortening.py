"""Shortens texts of others, so that a person can read the message. Tests: workloads/test_accelerators.py."""

from __future__ import annotations

from typing import Any

_LONGEST = 2_000


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a text, without its middle if it has more than `longest` characters."""
    half = (longest - 3) // 2
    return text if len(text) <= longest else f"{text[:half]}...{text[-half:]}"


def bounded(value: Any) -> Any:
    """Return a value for `-o json` in which each text is as short as a message."""
    if isinstance(value, dict):
        return {bounded(key): bounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [bounded(item) for item in value]
    return shortened(value) if isinstance(value, str) else value

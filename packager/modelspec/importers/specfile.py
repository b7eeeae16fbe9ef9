"""Writes the spec of a draft as YAML, with the origin of each key as a comment.

Tests: modelspec/importers/test_mxjob.py.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from packager.base import yamlio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft

# Text that every YAML parser reads as text without quotes, except words such as `yes`.
_PLAIN = re.compile(r"[A-Za-z_/][-A-Za-z0-9_./+]*(?: [A-Za-z0-9][-A-Za-z0-9_./+]*)*")
_LINES = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]+\n")
# The keys in the order in which people read a spec. Other keys follow; names that a user chooses keep their order.
_KEYS = """
    name title package framework aliases use_case description image registry tag digest dockerfile files downloads
    assets documentation secrets init kind rendezvous port ports replicas script
    scripts workdir command args roles success resources gpu environment retries deadline ttl priority_class
    stops_within workspace overlays sequence variants precision mode
"""
_ORDER = {key: position for position, key in enumerate(_KEYS.split())}
_CHOSEN = ("environment", "requests", "limits", "roles", "overlays", "ports", "scripts", "secrets")
_FLOW = 100


def write(draft: Draft) -> bytes:
    """Return the spec of `draft` as a YAML file: the same bytes for the same draft."""
    lines = (f"# {draft.header}", *_mapping(draft, draft.data, (), ""))
    return "".join(f"{line}\n" for line in lines).encode()


def _mapping(draft: Draft, values: dict[str, Any], location: Location, indent: str) -> Iterator[str]:
    is_chosen = location and location[-1] in _CHOSEN
    for key in values if is_chosen else sorted(values, key=lambda key: _ORDER.get(key, len(_ORDER))):
        place = (*location, key)
        comment = f"# {draft.origins[place].comment}".rstrip() if place in draft.origins else ""
        head, below = _written(draft, values[key], place, f"{indent}  ")
        if below and comment:
            yield f"{indent}{comment}"
        yield f"{indent}{scalar(key)}: {head}{'' if below or not comment else f' {comment}'}".rstrip()
        yield from below


def _written(draft: Draft, value: Any, place: Location, indent: str) -> tuple[str, list[str]]:
    """Return what stands behind a key or a dash, and the lines below it."""
    if (inline := _inline(value)) is not None:
        return inline, []
    if isinstance(value, str):
        lines = [f"{indent}{line}" if line else "" for line in value.splitlines()]
        return "|" if value.endswith("\n") else "|-", lines
    if isinstance(value, dict):
        return "", list(_mapping(draft, value, place, indent))
    lines = []
    for index, item in enumerate(value):
        head, below = _written(draft, item, (*place, index), f"{indent}  ")
        # A mapping begins on the line of the dash.
        first, *others = below if isinstance(item, dict) and item else [head, *below]
        lines += [f"{indent}- {first.lstrip()}", *others]
    return "", lines


def _inline(value: Any) -> str | None:
    """Return a value that takes one line; None for others."""
    if isinstance(value, str):
        return None if _is_literal(value) else scalar(value)
    if isinstance(value, dict):
        return None if value else "{}"
    if isinstance(value, list):
        is_short = sum(len(str(item)) + 2 for item in value) <= _FLOW
        items = [_inline(item) for item in value if is_short and not isinstance(item, dict | list)]
        return f"[{', '.join(map(str, items))}]" if len(items) == len(value) and None not in items else None
    return json.dumps(value)


def _is_literal(text: str) -> bool:
    """Whether a text of several lines is written as it is."""
    if "\n" not in text or not all(_LINES.fullmatch(line) or line == "\n" for line in text.splitlines(keepends=True)):
        return False
    lines = text.splitlines()
    return bool(lines[0] and lines[-1]) and not lines[0][0].isspace() and not any(line.endswith(" ") for line in lines)


def scalar(text: str) -> str:
    """Return `text` on one line so that every YAML reads it as this text."""
    if _PLAIN.fullmatch(text) and text.lower() not in yamlio.MISREAD:
        return text
    if '"' in text and re.fullmatch("[ -~]+", text):
        return "'" + text.replace("'", "''") + "'"
    return yamlio.quoted(text)

"""Writes the spec of a draft as YAML, with the origin of each key as a comment.

Tests: modelspec/importers/mxjob/test_read.py.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString, SingleQuotedScalarString

from packager.base import yamlio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.yamlio import Location
    from packager.modelspec.importers.draft import Draft
    from packager.modelspec.importers.source import ValueOrigin

# Text that every YAML parser reads as text without quotes, except words such as `yes`.
_PLAIN = re.compile(r"[A-Za-z_/][-A-Za-z0-9_./+]*(?: [A-Za-z0-9][-A-Za-z0-9_./+]*)*")
_LINES = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ud800-\udfff\ufffe\uffff]+\n")
_WIDE = 1 << 20
_KEYS = """
    name title package framework aliases use_case description image registry tag digest dockerfile files downloads
    assets documentation secrets init kind rendezvous port ports replicas script
    scripts workdir command args roles success resources gpu environment retries deadline ttl priority_class
    stops_within workspace overlays sequence variants precision mode
"""
"""The keys in the order in which people read a spec. Other keys follow; names that a user chooses keep their order."""

_ORDER = {key: position for position, key in enumerate(_KEYS.split())}
_CHOSEN = ("environment", "requests", "limits", "roles", "overlays", "ports", "scripts", "secrets")
_FLOW = 100


def write(draft: Draft) -> bytes:
    """Return the spec of `draft` as a YAML file: the same bytes for the same draft."""
    root = _mapping(draft.data, (), draft.origins)
    root.yaml_set_start_comment(draft.header)
    writer = YAML()
    writer.width = _WIDE
    writer.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    writer.dump(root, stream)
    return stream.getvalue().encode()


def _mapping(values: Mapping[str, Any], location: Location, origins: Mapping[Location, ValueOrigin]) -> CommentedMap:
    written = CommentedMap()
    keys = (
        values if location and location[-1] in _CHOSEN else sorted(values, key=lambda key: _ORDER.get(key, len(_ORDER)))
    )
    for key in keys:
        value = values[key]
        place = (*location, key)
        name = scalar(key)
        written[name] = _value(value, place, origins)
        if place not in origins:
            continue
        comment = origins[place].comment
        if _takes_one_line(written[name]):
            written.yaml_add_eol_comment(comment, key=name, column=0)
        else:
            written.yaml_set_comment_before_after_key(name, before=comment, indent=2 * _depth(place))
    return written


def _depth(location: Location) -> int:
    """Return the number of levels that a key is indented: an item of a list is indented twice."""
    return sum(2 if isinstance(step, int) else 1 for step in location) - 1


def _takes_one_line(value: Any) -> bool:
    if isinstance(value, LiteralScalarString):
        return False
    return not isinstance(value, CommentedMap | CommentedSeq) or not value or value.fa.flow_style() is True


def _value(value: Any, location: Location, origins: Mapping[Location, ValueOrigin]) -> Any:
    if isinstance(value, dict):
        mapping = _mapping(value, location, origins)
        if not value:
            mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list):
        items = CommentedSeq([_value(item, (*location, index), origins) for index, item in enumerate(value)])
        if not any(isinstance(item, dict | list) for item in value) and _length(value) <= _FLOW:
            items.fa.set_flow_style()
        return items
    return scalar(value) if isinstance(value, str) else value


def _length(items: list[Any]) -> int:
    return sum(len(str(item)) + 2 for item in items)


def scalar(text: str) -> Any:
    """Return `text` so that every YAML reads it as this text."""
    if "\n" in text and all(_LINES.fullmatch(line) or line == "\n" for line in text.splitlines(keepends=True)):
        lines = text.splitlines()
        if not lines[0][:1].isspace() and lines[0] and lines[-1] and not any(line.endswith(" ") for line in lines):
            return LiteralScalarString(text)
    if _PLAIN.fullmatch(text) and text.lower() not in yamlio.MISREAD:
        return text
    if '"' in text and re.fullmatch("[ -~]+", text):
        return SingleQuotedScalarString(text)
    return DoubleQuotedScalarString(text)

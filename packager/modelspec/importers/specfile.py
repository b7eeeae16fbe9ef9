"""Writes the spec of a draft as YAML, with the origin of each key as a comment.

Tests: modelspec/importers/test_mxjob.py.
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
    root = _mapping(draft, draft.data, ())
    root.yaml_set_start_comment(draft.header)
    writer = YAML()
    writer.width = 1 << 20
    writer.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    writer.dump(root, stream)
    return stream.getvalue().encode()


def _mapping(draft: Draft, values: dict[str, Any], location: Location) -> CommentedMap:
    written = CommentedMap()
    is_chosen = location and location[-1] in _CHOSEN
    for key in values if is_chosen else sorted(values, key=lambda key: _ORDER.get(key, len(_ORDER))):
        place = (*location, key)
        name = scalar(key)
        value = written[name] = _value(draft, values[key], place)
        if place not in draft.origins:
            continue
        comment = draft.origins[place].comment
        is_block = isinstance(value, CommentedMap | CommentedSeq) and value and value.fa.flow_style() is not True
        if is_block or isinstance(value, LiteralScalarString):
            # An item of a list is indented twice.
            indent = 2 * sum(2 if isinstance(step, int) else 1 for step in location)
            written.yaml_set_comment_before_after_key(name, before=comment, indent=indent)
        else:
            written.yaml_add_eol_comment(comment, key=name, column=0)
    return written


def _value(draft: Draft, value: Any, location: Location) -> Any:
    if isinstance(value, dict):
        mapping = _mapping(draft, value, location)
        if not value:
            mapping.fa.set_flow_style()
        return mapping
    if isinstance(value, list):
        items = CommentedSeq([_value(draft, item, (*location, index)) for index, item in enumerate(value)])
        is_short = sum(len(str(item)) + 2 for item in value) <= _FLOW
        if is_short and not any(isinstance(item, dict | list) for item in value):
            items.fa.set_flow_style()
        return items
    return scalar(value) if isinstance(value, str) else value


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

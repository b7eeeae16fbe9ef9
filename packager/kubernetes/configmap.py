"""Defines the limits of a ConfigMap, and spreads files over several. Tests: modelspec/test_code.py."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

CODE_BYTES = 200 << 10
"""The bytes of code in one ConfigMap: the promised limit, below the technical one."""

CODE_PARTS = 8
"""The number of ConfigMaps that the code of a spec may take."""

# Client-side apply keeps a copy of the object, as JSON, in an annotation, and all annotations together hold 262,144
# bytes (apimachinery, TotalAnnotationSizeLimitB). The rest is for names and labels.
BYTES = 252 << 10
"""The bytes of keys and values, as JSON, that one ConfigMap may have."""

KEY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")
"""The form of a key (apimachinery, pkg/util/validation: IsConfigMapKey)."""

_NO_KEY = re.compile(r"[^-._a-zA-Z0-9]")
_KEY_LENGTH = 240

_PUNCTUATION = len('"":"",')

_LONGER = {"<>&": 5, "\b\f": 4, "\u2028\u2029": 3}
"""How many more bytes some characters take than in Python's JSON."""

_REFUSED = re.compile("[\x7f-\x9f\ufffe\uffff]")


def keys(names: Sequence[str]) -> dict[str, str]:
    """Return the key of each of these paths, no two of them the same: a key has no folders, and fewer characters.

    A name without a folder is its own key where it can be one; `lib/a.py` becomes `lib__a.py`, or `lib__a.py-2` where
    that is taken. Case counts as little as in the least careful file system.
    """
    keys_by_name: dict[str, str] = {name: name for name in names if KEY.fullmatch(name)}
    taken = {name.lower() for name in keys_by_name}
    for name in sorted(set(names) - keys_by_name.keys()):
        plain = _NO_KEY.sub("_", name.replace("/", "__"))[-_KEY_LENGTH:].lstrip(".") or "_"
        key, number = plain, 1
        while key.lower() in taken:
            number += 1
            key = f"{plain}-{number}"
        keys_by_name[name] = key
        taken.add(key.lower())
    return keys_by_name


def packed(sizes: Mapping[str, tuple[int, int]]) -> list[list[str]]:
    """Spread files over as few ConfigMaps as is found simply: into the first with room, by their order or by size."""
    by_size = sorted(sizes, key=lambda key: (-sizes[key][1], key))
    return min((_first_fit(sizes, sizes), _first_fit(sizes, by_size)), key=len)


def _first_fit(sizes: Mapping[str, tuple[int, int]], order: Iterable[str]) -> list[list[str]]:
    parts: list[list[str]] = []
    room: list[tuple[int, int]] = []
    for key in order:
        size, encoded = sizes[key][0], entry_size(key, sizes[key][1])
        place = next((i for i, (rest, rest_encoded) in enumerate(room) if size <= rest and encoded <= rest_encoded), -1)
        if place < 0:
            place = len(parts)
            parts.append([])
            room.append((CODE_BYTES, BYTES))
        parts[place].append(key)
        room[place] = room[place][0] - size, room[place][1] - encoded
    return parts


def size(data: Mapping[str, bytes]) -> int:
    """Return how many bytes `data` takes in the copy that kubectl keeps of a ConfigMap."""
    return sum(entry_size(name, encoded_size(content)) for name, content in data.items())


def entry_size(key: str, encoded: int) -> int:
    """Return how many bytes a key with a value of `encoded` bytes takes in that copy."""
    return len(key) + _PUNCTUATION + encoded


def unreadable_reason(content: bytes) -> str | None:
    """Return the reason why kustomize does not read a value as it was, in YAML that it has written; None if it does.

    Seen with kubectl 1.30 to 1.37: a text of several lines becomes a block without a mark of its indentation, so it
    must not begin with a tab, unless a blank at the end of a line or a carriage return makes it a quoted text; U+0085
    becomes a space; and the other characters below are written as they are, and refused.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None  # it is written as base64
    if refused := _REFUSED.search(text):
        return f"contains the character U+{ord(refused[0]):04X}"
    is_block = "\n" in text and "\r" not in text and "\ufeff" not in text and " \n" not in text
    if text.startswith("\t") and is_block and not text.endswith(" "):
        return "begins with a tab"
    return None


def encoded_size(content: bytes) -> int:
    """Return how many bytes a value takes in that copy: Go's encoding/json also escapes what HTML would read."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return (len(content) + 2) // 3 * 4  # base64
    quoted = len(json.dumps(text, ensure_ascii=False).encode()) - 2
    return quoted + sum(more * sum(map(text.count, characters)) for characters, more in _LONGER.items())

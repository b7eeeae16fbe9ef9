"""Reads JSON from others, and writes compact JSON.

Whatever bytes are read, the result is a value or a JsonError, after little time. RFC 8259, and stricter: a key comes
once in an object, and every text can be encoded and has no NUL character.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from functools import partial
from typing import Any

from packager.base.problems import show

MAX_DEPTH = 64
"""The levels of nested values."""

MAX_VALUES = 10_000
"""The number of values in a text, without keys."""

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, or the beginning of one without an end: so that no byte is read twice."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NUL = re.compile(rb"\\u0000")
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE = (b"0" * 19, b"0e")
"""A table that makes all digits alike, and the parts of a number that 64 bits may not hold; texts contain them, too."""

_OTHERS = bytes(set(range(256)) - set(b"[]{}"))
_LONGEST_INTEGER = 20
_INTEGERS = range(-(2**63), 2**64)


class JsonError(ValueError):
    """A text that is not accepted as JSON: it is not valid."""


class JsonContentError(JsonError):
    """A valid text with a value that is not accepted."""


class JsonSizeError(JsonError):
    """A text with too many values."""


def read(content: bytes, *, max_values: int = MAX_VALUES, huge: float | None = None) -> Any:
    """Return the value in a JSON text.

    Args:
        content: The text, in UTF-8.
        max_values: The number of values that the text may have.
        huge: The value for NaN, for an infinity, and for a number that 64 bits cannot hold; None refuses these.

    Raises:
        JsonError: The text is not valid; the subclasses name other reasons.
    """
    _check_size(content, max_values)
    # Python calls a function for each number that has one, which takes as long as all the rest.
    shape = content.translate(_SHAPE)
    is_large = any(part in shape for part in _LARGE)
    try:
        value = json.loads(
            content.decode(),
            object_pairs_hook=_object,
            parse_constant=partial(_constant, huge),
            parse_int=partial(_integer, huge) if is_large else None,
            parse_float=partial(_float, huge) if is_large else None,
        )
        if _SURROGATE.search(content):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise JsonError(f"byte {error.start + 1} is not UTF-8") from None
    except UnicodeEncodeError:
        raise JsonContentError("a text has half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    if _NUL.search(content) and "\\u0000" in json.dumps(value).replace("\\\\", ""):
        raise JsonContentError("a text has the character NUL")
    return value


def read_object(content: bytes, *, max_values: int = MAX_VALUES) -> dict[str, Any]:
    """Return the object in a JSON text; see `read`. Raises JsonError, also for another value than an object."""
    value = read(content, max_values=max_values)
    if not isinstance(value, dict):
        raise JsonContentError(f"expected a JSON object, found {show(value)}")
    return value


def shortest(content: bytes) -> int:
    """Return a length that a JSON text without spaces and needless escapes has at least, without parsing the text."""
    blanks = len(content) - len(content.translate(None, b" \t\r\n"))
    return len(content) - blanks - 5 * content.count(b"\\u")


def compact_bytes(value: object) -> bytes:
    """Return a value as JSON without spaces, in UTF-8."""
    return compact(value).encode()


def compact(value: object, *, sort_keys: bool = False) -> str:
    """Return a value as JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"))


def _check_size(content: bytes, max_values: int) -> None:
    """Raise JsonError for a text that is nested too deeply, or has too many values, before it is parsed."""
    brackets = content.count(b"[") + content.count(b"{")
    if brackets <= MAX_DEPTH and content.count(b",") + brackets <= max_values:
        return  # whatever the strings contain
    structure = _STRING.sub(b"", content)
    depth = 0
    for bracket in structure.translate(None, _OTHERS)[: 2 * max_values]:
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            raise JsonError(f"expected values in at most {MAX_DEPTH} others, found deeper ones")
    if structure.count(b",") + structure.count(b"[") + structure.count(b"{") > max_values:
        raise JsonSizeError(f"expected at most {max_values:,} values, found more")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        repeated = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise JsonContentError(f"the key {json.dumps(repeated[:80])} comes twice in an object")
    return values


def _integer(huge: float | None, text: str) -> float:
    if len(text) > _LONGEST_INTEGER or (number := int(text)) not in _INTEGERS:
        return _constant(huge, text)
    return number


def _float(huge: float | None, text: str) -> float:
    number = float(text)
    return _constant(huge, text) if math.isinf(number) else number


def _constant(huge: float | None, text: str) -> float:
    if huge is None:
        raise JsonContentError(f"expected a number of at most 64 bits, found {text[:24]}")
    return huge

"""Reads JSON from others, and writes compact JSON.

Whatever bytes are read, the result is a value or a JsonError, after little time. RFC 8259, and stricter: numbers have
64 bits, and every text can be encoded and has no NUL character.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from packager.base.problems import show

MAX_DEPTH = 64
"""The levels of nested values."""

MAX_VALUES = 10_000
"""The number of values in a text, without keys."""

_TOO_DEEP = f"expected values in at most {MAX_DEPTH} others, found deeper ones"
_UNENCODABLE = re.compile("[\0\ud800-\udfff]")
_INTEGERS = range(-(2**63), 2**64)


class JsonError(ValueError):
    """A text that is not accepted as JSON: it is not valid."""


class JsonContentError(JsonError):
    """A valid text with a value that is not accepted."""


class JsonSizeError(JsonError):
    """A text with too many values."""


def read(content: bytes, *, max_values: int = MAX_VALUES) -> Any:
    """Return the value in a JSON text in UTF-8. Raises JsonError; its subclasses name other reasons."""
    try:
        value = json.loads(content.decode(), parse_constant=float)
    except UnicodeDecodeError as error:
        raise JsonError(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise JsonError(_TOO_DEEP) from None
    except ValueError:
        raise JsonContentError("expected numbers of at most 64 bits, found one of thousands of digits") from None
    _check(value, max_values)
    return value


def _check(value: Any, max_values: int) -> None:
    """Refuse a value that is too large or too deep, or has texts or numbers that others cannot read."""
    waiting = [(value, 0)]
    for count, (item, depth) in enumerate(waiting):
        if count >= max_values:
            raise JsonSizeError(f"expected at most {max_values:,} values, found more")
        if depth >= MAX_DEPTH and isinstance(item, dict | list):
            raise JsonError(_TOO_DEEP)
        texts = [item] if isinstance(item, str) else item if isinstance(item, dict) else []
        if any(map(_UNENCODABLE.search, texts)):
            raise JsonContentError("a text has the character NUL, or half of a surrogate pair")
        is_large = isinstance(item, int) and item not in _INTEGERS
        if is_large or (isinstance(item, float) and not math.isfinite(item)):
            raise JsonContentError(f"expected a number of at most 64 bits, found {str(item)[:24]}")
        if isinstance(item, dict | list):
            waiting += [(part, depth + 1) for part in (item.values() if isinstance(item, dict) else item)]


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

"""Defines the limits of a ConfigMap: keys without folders, and a maximum size."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CODE_BYTES = 200 << 10
"""How much code a spec may bring: what is promised, below what fits."""

# Client-side apply keeps a copy of the object, as JSON, in an annotation, and all annotations together hold 262,144
# bytes (apimachinery, TotalAnnotationSizeLimitB). The rest is for names and labels.
BYTES = 252 << 10
"""How much one may hold of keys and values, as JSON."""

KEY = re.compile(r"(?!\.$|\.\.)[-._a-zA-Z0-9]{1,253}")
"""What a key may be (apimachinery, pkg/util/validation: IsConfigMapKey)."""

_PUNCTUATION = len('"":"",')

# How much longer a character is where kubectl writes it (Go, encoding/json; it escapes what HTML would read).
_EXTRA_BYTES = {
    **{bytes([control]): 5 for control in range(0x20)},
    **dict.fromkeys((b"\t", b"\n", b"\r", b'"', b"\\"), 1),
    **dict.fromkeys((b"<", b">", b"&"), 5),
    **dict.fromkeys(("\u2028".encode(), "\u2029".encode()), 3),
}


def key(name: str) -> str:
    """Return the key of the file `name` in a ConfigMap, which has no folders."""
    return name.replace("/", "__")


def size(data: Mapping[str, bytes]) -> int:
    """Return how many bytes `data` takes in the copy that kubectl keeps of a ConfigMap."""
    return sum(len(name) + _PUNCTUATION + _size(content) for name, content in data.items())


def _size(content: bytes) -> int:
    try:
        content.decode()
    except UnicodeDecodeError:
        return (len(content) + 2) // 3 * 4  # base64
    return len(content) + sum(content.count(character) * extra for character, extra in _EXTRA_BYTES.items())

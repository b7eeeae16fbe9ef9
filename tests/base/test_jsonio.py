from __future__ import annotations

import json
import time
from random import Random

import pytest

from packager.base.jsonio import JsonContentError, JsonError, JsonSizeError, compact, read, read_object, shortest

SURROGATE = b'{"a": "\\ud800"}'


def test_valid_json_is_read() -> None:
    for content, value in (
        (b'{"a": [1, -2.5, true, null, "\\u00e9\\ud83d\\ude00"]}', {"a": [1, -2.5, True, None, "\u00e9\U0001f600"]}),
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b'"\\\\u0000"', "\\u0000"),
        (b'["1e400", "12345678901234567890123"]', ["1e400", "12345678901234567890123"]),
        (b"[" * 64 + b"]" * 64, None),
    ):
        assert value is None or read(content) == value
        read(content)


@pytest.mark.parametrize(
    ("content", "kind", "message"),
    [
        (b'{"a":\n 1,}', JsonError, "line 2, column 4"),
        (b'"\xff"', JsonError, "byte 2 is not UTF-8"),
        (b"\xef\xbb\xbf1", JsonError, "BOM"),
        (b"[" * 65 + b"]" * 65, JsonError, "in at most 64 others"),
        (b'{"a":' * 100_000, JsonError, "in at most 64 others"),
        (SURROGATE, JsonContentError, "half of a surrogate pair"),
        (b'["a\\u0000b"]', JsonContentError, "the character NUL"),
        (b"1" * 5_000, JsonContentError, "numbers of at most 64 bits"),
        (b"18446744073709551616", JsonContentError, "a number of at most 64 bits"),
        (b"[1, -9223372036854775809]", JsonContentError, "found -9223372036854775809"),
        (b"[0.5, 1.5E999]", JsonContentError, "found inf"),
        (b"NaN", JsonContentError, "found nan"),
        (b"[" + b"1," * 10_001 + b"1]", JsonSizeError, "at most 10,000 values"),
    ],
)
def test_hostile_json_is_refused(content: bytes, kind: type[JsonError], message: str) -> None:
    with pytest.raises(JsonError) as caught:
        read(content)
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("content", [b'\\"' * 250_000, b"[]" * 250_000])
def test_hostile_json_is_refused_quickly(content: bytes) -> None:
    begun = time.process_time()
    with pytest.raises(JsonError):
        read(content)
    assert time.process_time() - begun < 1.0


def test_shortest_is_never_longer_than_compact_text() -> None:
    random = Random(8)
    for _ in range(2_000):
        text = "".join(
            random.choice(["a", " ", "\t", '"', "\\", "é", "\U0001f600", "\u2028", "\n", "1"]) for _ in range(9)
        )
        value = [text, {text: random.random()}, random.randrange(10**9)]
        for content in (json.dumps(value), json.dumps(value, indent=3, ensure_ascii=False)):
            assert shortest(content.encode()) <= len(compact(value).encode())
    assert shortest(b'["' + b"a" * 1_000 + b'"]') == 1_004


def test_object_is_expected_where_another_value_would_not_do() -> None:
    assert read_object(b'{"a": 1}') == {"a": 1}
    with pytest.raises(JsonContentError, match=r"^expected a JSON object, found a list$"):
        read_object(b'["a"]')

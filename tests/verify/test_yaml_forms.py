"""Forms of YAML that parsers read differently: kubectl reads each as `verify` does, or `verify` reads a text."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

from packager.base import yamlio

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# fmt: off
SCALARS = (
    "yes", "no", "on", "off", "y", "n", "Yes", "NO", "true", "True", "TRUE", "false", "False", "null", "Null", "NULL",
    "~", "", "0", "1", "-1", "+1", "010", "0o10", "0x1F", "0X1f", "0b101", "1_000", "1,000", "007", "-0", "+0", "00",
    "1.", ".5", "1.0", "1.10", "1e3", "1E3", "1e+3", "1.5e-3", "1e400", "-1e400", "12:30", "190:20:30",
    "190:20:30.15", "2001-12-14", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43", "9223372036854775807",
    "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "0.1", "0.30", "a#b", "a #b",
    "a: b", "a:b", ":a", "-a", "- a", "?a", "? a", "a?", "@a", "`a`", "%a", "&", "*", "!", "|a", ">a", "{a", "a}",
    "[a", "a]", "a,b", "'a'", "'it''s'", '"a"', '"\\x41"', '"\\u00e9"', '"\\ud83d\\ude00"', '"\\U0001F600"', '"\\n"',
    '"\\ "', '"\\e"', '"\\_"', '"\\N"', '"\\L"', '"\\P"', '"a\n   b"', "'a\n   b'", "a\n   b", '"a\\\n   b"',
    '"a\n\n   b"', "'1'", '"true"', "'~'", "''", '""', "=", "<<", "---", "...", "a ---", "\xe9", "\U0001f600",
    "\xa0a", "a\tb", "'a\tb'",
)
BLOCKS = (
    "|\n    a\n    b\n", "|-\n    a\n", "|+\n    a\n\n", ">\n    a\n    b\n", ">-\n    a\n\n    b\n", ">+\n    a\n\n",
    "|2\n      a\n", "|1\n   a\n", "|\n    a\n     b\n", ">\n    a\n     b\n    c\n", "|\n\n    a\n", "|\n    # a\n",
    "|\n    a # b\n", "|  # a\n    b\n",
)
STRUCTURES = (
    "[]", "{}", "[a, b]", "[a, b,]", "[a b]", "[a: b]", "[? a : b]", "[[a], [b]]", "{a: b}", "{a: b,}", "{a}",
    "{a: , b: }", '{"a":b}', '{"a":1}', "{a:1}", "{a: {b: [c]}}", "[~, null, '']", "\n    a: b\n",
    "\n    - a\n    - b\n", "\n  - a\n  - b\n", "\n    - - a\n      - b\n", "\n    - a: b\n      c: d\n",
    "\n    ? a\n    : b\n", "\n    ? a\n    ? b\n", "\n    'a': b\n", "\n    1: a\n", "\n    yes: a\n",
    "\n    1.0: a\n", "\n    0x1: a\n", "\n    010: a\n", "\n    =: a\n", "\n    a: b\n    a: c\n", "{a: b, a: c}",
    "{a: b, 'a': c}", "{1: a, '1': b}", "{<<: {a: b}}", "\n    <<: {a: b}\n    c: d\n", "&a b", "!!str 1",
    "!!int '1'", "!!binary YQ==", "!a b", "!!set {a}", "!!map {a: b}", "!<tag:yaml.org,2002:str> 1", "{[a]: b}",
    "{{a: b}: c}", "{? [a] : b}", "[*a]", "{a: *b}", "a\x85b", "'a\u2028b'", "'a\ufeffb'", "'\x7f'", "'a\x00b'",
)
# fmt: on
FORMS = SCALARS + BLOCKS + STRUCTURES

REFUSED = (".inf", ".nan", r'"\/"')
"""Forms of values that we read and kubectl refuses."""

# fmt: off
SAME_KEYS = (
    "a", "'yes'", '"010"', "'~'", "=", "1", "-1", "true", "false", "1,000", "1.2.3", "10.0.0.1", "2024.txt", "10-a.sh",
    "_1", "a_1", "yess", ".a", "-a", "0x", "1e", "12:99", "1.35.2", "''", "a b", "? c", "\xe9", ".hidden", "+a",
    "infinite",
)
OTHER_KEYS = (
    "<<", "'<<'", '"<<"', "? <<", "yes", "y", "N", "On", "OFF", "True", "FALSE", "~", "null", "Null", "0.5", ".5",
    "1.", "1.0", "16777217.5", "1e3", "1E+3", "0x1", "0X1f", "010", "00", "0o10", "0b1", "+1", "-0", "1_000", "-_1",
    "0_x1", "9223372036854775808", "12:30", "190:20:30.15", ".inf", "-.INF", ".NaN", "2001-12-14", "2001-1-1t2:3:4Z",
    "2001-12-14 21:59:43", "!!str yes", "!!binary YQ==", "!!int '1'", "!a b",
)
# fmt: on
"""Keys that kubectl or kustomize reads as another key, merges, or refuses."""


def _text(form: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\nvalue: {form}\n"


def _ours(form: str) -> Any:
    """Return how we read a form; None if it is refused."""
    text = _text(form).encode()
    documents, problems = yamlio.load_all(text, "f")
    if problems or len(documents) != 1 or not isinstance(documents[0].data, dict) or yamlio.indirections(text, "f"):
        return None
    return documents[0].data


def _is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values are equal, or theirs is a number, a boolean or null that we read as text."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_is_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_is_same, ours, theirs))
    if isinstance(ours, str) and not isinstance(theirs, str):
        return theirs is None or isinstance(theirs, bool | int | float)
    return isinstance(ours, str) is isinstance(theirs, str) and bool(ours == theirs)


def _theirs(kubectl: Path, stream: str) -> list[Any] | None:
    """Return how kubectl reads a stream; None if it refuses the stream."""
    done = subprocess.run(
        [kubectl, "annotate", "--local", "--dry-run=client", "-f", "-", "a=b", "-o", "json"],
        input=stream.encode(),
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        return None
    rest, decoder, values = done.stdout.decode().strip(), json.JSONDecoder(), []
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].strip()
    return values


def test_kubectl_reads_the_same_as_verify(kubectl: Path) -> None:
    ours = {form: value for form in dict.fromkeys(FORMS) if (value := _ours(form)) is not None}
    assert len(ours) > 120
    theirs = _theirs(kubectl, "---\n".join(map(_text, ours)))
    assert theirs is not None
    different = [
        form
        for (form, value), their_value in zip(ours.items(), theirs, strict=True)
        if not _is_same(value.get("value"), their_value.get("value")) or value.keys() != their_value.keys()
    ]
    assert different == []


def test_kubectl_refuses_forms_that_only_verify_reads(kubectl: Path) -> None:
    for form in REFUSED:
        assert _ours(form) is not None
        assert _theirs(kubectl, _text(form)) is None


def test_manifests_refuse_keys_that_kubectl_reads_differently() -> None:
    for key in OTHER_KEYS:
        _, problems = yamlio.load_all(_with_keys([key]), "f")
        assert [(problem.line, problem.column) for problem in problems] == [(6, 5 if key.startswith("?") else 3)], key
        assert problems[0].hint


def test_kubectl_and_kustomize_read_accepted_keys_as_verify_does(kubectl: Path, tmp_path: Path) -> None:
    documents, problems = yamlio.load_all(_with_keys(SAME_KEYS), "f")
    assert problems == []
    ours = documents[0].data["data"]
    assert len(ours) == len(SAME_KEYS)
    theirs = _theirs(kubectl, _with_keys(SAME_KEYS).decode())
    assert theirs is not None
    assert theirs[0]["data"] == ours
    # kustomize refuses these, and the empty key.
    texts = [key for key in SAME_KEYS if key not in ("1", "-1", "true", "false", "''")]
    (tmp_path / "c.yaml").write_bytes(_with_keys(texts))
    (tmp_path / "kustomization.yaml").write_text("resources: [c.yaml]\n")
    rendered = subprocess.run([kubectl, "kustomize", tmp_path], capture_output=True, check=True).stdout
    documents, problems = yamlio.load_all(rendered, "f")
    assert problems == []
    assert documents[0].data["data"] == yamlio.load_all(_with_keys(texts), "f")[0][0].data["data"]


def _with_keys(keys: Iterable[str]) -> bytes:
    """Return a ConfigMap with keys as written."""
    entries = (f"{key}\n  : x" if key.startswith("?") else f"{key}: x" for key in keys)
    data = "".join(f"  {entry}\n" for entry in entries)
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n{data}".encode()

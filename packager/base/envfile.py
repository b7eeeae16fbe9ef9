"""Reads and edits env files by kustomize's rules (kustomize, api/kv/kv.go), and finds misleading lines.

A line is left-trimmed; one that then begins with `#` is a comment; the key ends at the first `=`, and the value is
the rest of the line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from packager.base.errors import UsageError
from packager.base.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LINE_BYTES = (64 << 10) - 1
"""The longest line that kustomize reads (bufio.MaxScanTokenSize): it ignores a longer one, and all below."""

VALUE = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f\ufffe\uffff]*"
"""The form of a value: one line, without control characters except tabs; quotes, blanks and '#' are part of it."""

NAME = r"[A-Za-z_][A-Za-z0-9_]*"
"""The names that a shell, and so a script, can read; a ConfigMap's key may also contain `-` and `.`."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One assignment: the 1-based number of its line, the key, the value."""

    number: int
    key: str
    value: str


def lines(text: bytes) -> Iterator[Line]:
    """Yield the assignments of an env file as kustomize reads them."""
    for number, raw in _rows(text):
        line = raw.decode("utf-8", "replace").lstrip()
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            yield Line(number, key, value)


def commented_out(text: bytes, key: str) -> int | None:
    """Return the line, from 0, in which an env file has `key` commented out; None when it has not."""
    return next((number for number, other in _commented_out(text) if other == key.encode()), None)


def _commented_out(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each key that an env file has commented out, after the number of its line, from 0."""
    for number, raw in enumerate(text.removeprefix(_BYTE_ORDER_MARK).split(b"\n")):
        comment, has_value, _ = raw.partition(b"=")
        if has_value and comment.startswith(b"#"):
            yield number, comment[1:].lstrip(b" \t")


def keys(text: bytes) -> Iterator[str]:
    """Yield the keys that an env file sets or has commented out, as far as a shell can read them."""
    commented = (key.decode(errors="replace") for _, key in _commented_out(text))
    yield from (key for key in (*(line.key for line in lines(text)), *commented) if re.fullmatch(NAME, key))


def added(before: bytes, after: bytes) -> Iterator[Line]:
    """Yield each line of the env file `after` whose key `before` neither sets nor has commented out."""
    keys = {line.key for line in lines(before)}
    commented_out_keys = {key for _, key in _commented_out(before)}
    for line in lines(after):
        if line.key not in keys and line.key.encode() not in commented_out_keys:
            yield line


def assign(text: bytes, key: str, value: str, name: str) -> bytes:
    """Return an env file with `key` set to `value`: in the line with the key, also a commented one, or a new line."""
    rows = text.split(b"\n")
    places = [line.number - 1 for line in lines(text) if line.key == key]
    if len(places) > 1:
        first, second = (place + 1 for place in places[:2])
        raise UsageError(f"{name} sets {key} twice, in lines {first} and {second}", hint="keep one of them")
    end = b"\r" if rows[0].endswith(b"\r") else b""
    place = places[0] if places else commented_out(text, key)
    if place is None:
        if rows[-1]:
            rows[-1] += end
            rows.append(b"")
        rows[-1:] = [f"{key}={value}".encode() + end, b""]
    else:
        line = rows[place]
        before = line.removesuffix(b"\r").partition(b"=")[0] if places else key.encode()
        mark = _BYTE_ORDER_MARK if not places and line.startswith(_BYTE_ORDER_MARK) else b""
        rows[place] = mark + before + b"=" + value.encode() + (b"\r" if line.endswith(b"\r") else b"")
    return b"\n".join(rows)


def is_quoted(value: str) -> bool:
    """Whether `value` is quoted as for a shell: here the quotes are part of the value."""
    return len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"


def problems(text: bytes, name: str, intended: Collection[tuple[str, str]] = ()) -> Iterator[tuple[bool, Problem]]:
    """Yield the problem of each line that kustomize reads otherwise than it looks, or that may be unintended.

    Before each problem is whether the line is only unusual. `intended` has the keys and values that are meant so. If
    kustomize refuses the file for a line, kubectl prints the message.
    """
    for number, raw in _rows(text):
        line = raw.decode("utf-8", "replace")
        stripped = line.lstrip()
        if not stripped or stripped.startswith("#"):
            continue
        column = len(line) - len(stripped) + 1
        key, equals, value = stripped.partition("=")
        is_intended = (key, value) in intended
        faults = [(False, *misread) for misread in _misread(key, equals, value)]
        if is_quoted(value) and not is_intended:
            faults.append((False, f"the quotes are part of {key}'s value", f"write {key}={value[1:-1]}", len(key) + 1))
        faults += [] if is_intended else [(True, *doubt) for doubt in _doubts(key, value)]
        for is_unusual, message, hint, offset in faults:
            yield is_unusual, Problem(name, number, column + offset, message, hint)


def _misread(key: str, equals: str, value: str) -> Iterator[tuple[str, str | None, int]]:
    """Yield message, hint, and the offset in the assignment."""
    name = key.removeprefix("export").strip()
    if key.startswith("export ") and re.fullmatch(NAME, name):
        yield f"the key is {key!r}: an env file is not a shell script", f"write {name}={value}", 0
    elif not re.fullmatch(NAME, key):
        yield f"{key!r} is not the name of a variable", "use letters, digits and '_', with no space before '='", 0
    elif not equals:
        yield f"{key} has no '=', so its value is empty", f"write {key}=VALUE", 0
    position = next((at for at, character in enumerate(value) if not re.fullmatch(VALUE, character)), None)
    if position is not None:
        message = f"{key}'s value contains the control character U+{ord(value[position]):04X}"
        yield message, "remove it", len(key) + 1 + position


def _doubts(key: str, value: str) -> Iterator[tuple[str, str, int]]:
    """Yield values that may be unintended: message, hint, and the offset in the assignment."""
    start = len(key) + 1
    if not is_quoted(value) and value != value.strip():
        yield f"the spaces around the value are part of {key}'s value", f"write {key}={value.strip()}", start
    if " #" in value:
        at = value.index(" #")
        message = f"{value[at:].strip()!r} is part of {key}'s value, not a comment"
        yield message, "put the comment on its own line", start + at + 1


def _rows(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines, with their numbers."""
    body = text.removeprefix(_BYTE_ORDER_MARK).removesuffix(b"\n")
    return ((number, line.removesuffix(b"\r")) for number, line in enumerate(body.split(b"\n"), start=1))

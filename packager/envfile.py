"""An env file by kustomize's rules (kustomize, api/kv/kv.go), and what in it does not mean what it seems to.

A line is left-trimmed; one that then begins with `#` is a comment; the key ends at the first `=`, and the value is
all that follows, to the end of the line. A line of 64 KiB ends the reading, of this line and all below, with no word.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

# bufio.MaxScanTokenSize: the scanner's buffer holds a line and its end.
_LINE_BYTES = 64 << 10

# What a shell, and so a script, can read; a ConfigMap's key may also hold `-` and `.`.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Line(NamedTuple):
    """One assignment: the 1-based number of its line, the key, the value."""

    number: int
    key: str
    value: str


class Complaint(NamedTuple):
    """What is wrong: line and column, from 1; whether kustomize refuses the file for it."""

    line: int
    column: int
    message: str
    hint: str | None
    fatal: bool


def lines(text: bytes) -> Iterator[Line]:
    """Yield the assignments of an env file as kustomize reads them."""
    for number, raw in _until_too_long(text):
        line = raw.decode("utf-8", "replace").lstrip()
        if line and not line.startswith("#"):
            key, _, value = line.partition("=")
            yield Line(number, key, value)


def complaints(text: bytes) -> Iterator[Complaint]:
    """Yield what is wrong with an env file."""
    readable = list(_until_too_long(text))
    every = text.removesuffix(b"\n").split(b"\n")
    if len(readable) < len(every):
        number = len(readable) + 1
        lost = len(every) - number
        message = f"the line is {len(every[number - 1]) / 1024:.0f} KiB long: kustomize drops it"
        message += f" and the {lost} below it, in silence" if lost else ", in silence"
        yield Complaint(number, 1, message, "bring the value as a file", fatal=False)
    first: dict[str, int] = {}
    for number, raw in readable:
        try:
            line = raw.decode()
        except UnicodeDecodeError as error:
            yield Complaint(number, error.start + 1, "expected UTF-8 text, found other bytes", None, fatal=True)
            continue
        stripped = line.lstrip()
        if not stripped or stripped.startswith("#"):
            continue
        column = len(line) - len(stripped) + 1
        key, equals, value = stripped.partition("=")
        if key in first:
            message = f"{key} stands in line {first[key]} already, and kustomize takes no key twice"
            yield Complaint(number, column, message, "keep one of them", fatal=True)
        first.setdefault(key, number)
        for message, hint, offset in _of_line(key, equals, value):
            yield Complaint(number, column + offset, message, hint, fatal=False)


def _of_line(key: str, equals: str, value: str) -> Iterator[tuple[str, str | None, int]]:
    """Yield message, hint, and how far into the assignment it stands."""
    name = key.removeprefix("export").strip()
    if key.startswith("export ") and _NAME.fullmatch(name):
        yield f"the key is {key!r}: this is no shell script", f"write {name}={value}", 0
    elif not _NAME.fullmatch(key):
        yield f"{key!r} is not the name of a variable", "letters, digits and '_', and no blank before '='", 0
    elif not equals:
        yield f"{key} has no '=', and so an empty value", f"write {key}=VALUE", 0
    start = len(key) + 1
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        yield f"the quotes are part of {key}'s value", f"write {key}={value[1:-1]}", start
    elif value != value.strip():
        yield f"the blanks around the value are part of {key}'s value", f"write {key}={value.strip()}", start
    if " #" in value:
        at = value.index(" #")
        message = f"{value[at:].strip()!r} is part of {key}'s value, not a comment"
        yield message, "a comment has a line of its own", start + at + 1


def _until_too_long(text: bytes) -> Iterator[tuple[int, bytes]]:
    body = text.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    for number, line in enumerate(body.split(b"\n"), start=1):
        if len(line) >= _LINE_BYTES:
            return
        yield number, line.removesuffix(b"\r")

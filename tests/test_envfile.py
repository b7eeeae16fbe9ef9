"""What an env file says that its author does not see, each with its line, its column and the fix."""

from __future__ import annotations

import pytest

from packager.envfile import Complaint, complaints

EXPORTED = "the key is 'export A': this is no shell script"
NO_NAME = "letters, digits and '_', and no blank before '='"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("A-B=1", (1, 1), "'A-B' is not the name of a variable", NO_NAME),
        ("1A=1", (1, 1), "'1A' is not the name of a variable", NO_NAME),
        ("A=1\n  B =1", (2, 3), "'B ' is not the name of a variable", NO_NAME),
        ("=1", (1, 1), "'' is not the name of a variable", NO_NAME),
        ("export A=1", (1, 1), EXPORTED, "write A=1"),
        ("# all\n A", (2, 2), "A has no '=', and so an empty value", "write A=VALUE"),
        ("A= 1", (1, 3), "the blanks around the value are part of A's value", "write A=1"),
        ("A=1 \n", (1, 3), "the blanks around the value are part of A's value", "write A=1"),
        ("A='1'", (1, 3), "the quotes are part of A's value", "write A=1"),
        ("A=1 # one", (1, 5), "'# one' is part of A's value, not a comment", "a comment has a line of its own"),
    ],
)
def test_a_line_that_means_something_else(text: str, place: tuple[int, int], message: str, hint: str) -> None:
    assert list(complaints(text.encode())) == [Complaint(*place, message, hint, fatal=False)]


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        (b"A=\xff", (1, 3), "expected UTF-8 text, found other bytes", None),
        (
            b"A=1\nB=2\n A=3\n",
            (3, 2),
            "A stands in line 1 already, and kustomize takes no key twice",
            "keep one of them",
        ),
    ],
)
def test_a_line_that_kustomize_refuses(text: bytes, place: tuple[int, int], message: str, hint: str | None) -> None:
    assert list(complaints(text)) == [Complaint(*place, message, hint, fatal=True)]


@pytest.mark.parametrize(
    ("below", "message"),
    [
        ("", "the line is 64 KiB long: kustomize drops it, in silence"),
        ("B=1\nC=2\n", "the line is 64 KiB long: kustomize drops it and the 2 below it, in silence"),
    ],
)
def test_a_line_that_ends_the_reading(below: str, message: str) -> None:
    text = f"X=1\nA={'x' * (64 << 10)}\n{below}"
    assert list(complaints(text.encode())) == [Complaint(2, 1, message, "bring the value as a file", fatal=False)]


@pytest.mark.parametrize("text", ["", "\n", "# A=1\n", "A=1\r\nB=\r\n", "\ufeffA=1", "A=a#b\nB='", "A=it's"])
def test_a_file_that_means_what_it_seems_to(text: str) -> None:
    assert list(complaints(text.encode())) == []

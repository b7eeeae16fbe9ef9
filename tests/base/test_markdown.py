"""Markdown files as sections of a README; no text changes the document outside its section."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from markdown_it import MarkdownIt

from packager.base.markdown import MAX_BYTES, Page, escaped

if TYPE_CHECKING:
    from markdown_it.token import Token

KNOWN = {"a.sh": "scripts/a.sh", "a b": "scripts/a b", "#deep": "#deep"}


def resolve(target: str) -> str | None:
    return target if target.startswith("https://") else KNOWN.get(target)


def section(text: str) -> tuple[str, list[str]]:
    page = Page(text.encode(), "x.md")
    assert page.problems == []
    made = page.section("Title", 3, resolve)
    assert made.problems == ()
    return made.text, [f"{remark.line}:{remark.column}: {remark.message}" for remark in made.remarks]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Title\n=====\ntext\n\n## Deep\n", "text\n\n### Deep\n"),
        ("~~~\n# code\n\n\n<b> [x](y)\n~~~\n", "~~~\n# code\n\n\n<b> [x](y)\n~~~\n"),
        (
            "[x](a.sh) [y](<a b>) [z](#deep) <https://a.example>\n",
            "[x](scripts/a.sh) [y](<scripts/a b>) [z](#deep) <https://a.example>\n",
        ),
    ],
)
def test_file_becomes_a_section(text: str, expected: str) -> None:
    assert section(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected", "remark"),
    [
        ("See [x](/y.md).", "See x (`/y.md`).\n", "1:5: the link to '/y.md' leads nowhere"),
        ("a <b>c</b>", "a \\<b>c\\</b>\n", "1:3: HTML is shown as text"),
    ],
)
def test_section_reports_lost_links_and_html(text: str, expected: str, remark: str) -> None:
    made, remarks = section(text)
    assert made == expected
    assert [found.startswith(remark) for found in remarks] == [True]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a\n\n  ```\nb", "x.md:3:3: the block of code that begins here is not closed"),
        ("a\nb\u202ec".encode(), "x.md:2:2: expected text that is seen, found the character U+202E (remove it)"),
        (b"x" * (MAX_BYTES + 1), "x.md:1:1: the file is larger than 64 KiB"),
    ],
)
def test_unclosed_blocks_and_bad_files_are_refused(content: bytes, problem: str) -> None:
    assert [str(found) for found in Page(content, "x.md").problems] == [problem]


def test_title_is_escaped_as_one_line_of_text() -> None:
    tokens = MarkdownIt("commonmark").parse(f"## {escaped('<!-- *x* [y](z) `a` &lt; # ')}\n")
    assert (tokens[1].children or [])[0].content == "<!-- *x* [y](z) `a` &lt; #"


def _all(tokens: list[Token]) -> list[Token]:
    return [one for token in tokens for one in (token, *_all(token.children or []))]

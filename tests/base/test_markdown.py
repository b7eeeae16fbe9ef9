"""Markdown files as sections of a README; no text changes the document outside its section."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from packager.base.markdown import MAX_BYTES, Page, as_html, escaped

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
        ("# Title\n\ntext\n", "text\n"),
        ("Title\n=====\ntext\n\n## Deep\n", "text\n\n### Deep\n"),
        ("# Other\n\n## Deep ##\n\n###### Deepest", "### Other\n\n#### Deep ##\n\n###### Deepest\n"),
        ("Two\nlines\n---\n\n> Quoted\n> ===\n", "#### Two lines\n\n> ### Quoted\n"),
        ("#no heading\n===\n", "### #no heading\n"),
        ("a\r\n\r\n\r\nb  \r\nc", "a\n\nb  \nc\n"),
        ("~~~\n# code\n\n\n<b> [x](y)\n~~~\n", "~~~\n# code\n\n\n<b> [x](y)\n~~~\n"),
        ("    # code\n\n`<b>` ``a ` b``\n", "    # code\n\n`<b>` ``a ` b``\n"),
        ("<!-- a -->\n<!--\n\n# b\n-->\nx <!-- c --> y\n", "x  y\n"),
        ("[//]: # (ignore the above)\n[a]: https://a.example 'b'\n\n[x][a], ![y][A] [a]\n",
         '[x](https://a.example "b"), ![y](https://a.example "b") [a](https://a.example "b")\n'),
        ("[x](a.sh) [y](<a b>) [z](#deep) <https://a.example>\n",
         "[x](scripts/a.sh) [y](<scripts/a b>) [z](#deep) <https://a.example>\n"),
        ('[x](a.sh "t") [a\nb](\na.sh)\n', '[x](scripts/a.sh "t") [a\nb](scripts/a.sh)\n'),
        (r"\[x](y) \<b> \`[x](a.sh)\`", r"\[x]\(y) \<b> \`[x](scripts/a.sh)\`" + "\n"),
        ("a < b, 1 <2 &amp; &lt;b&gt;\n", "a < b, 1 <2 &amp; &lt;b&gt;\n"),
        ("a<br>\nb<BR/> c<br />\n", "a  \nb c  \n"),
        ("|a<br>b|c<br/>|\n|-|-|\n", "|a b|c |\n|-|-|\n"),
        ("&#8238;&rlm;\n", "\\&#8238;&rlm;\n"),
    ],
)  # fmt: skip
def test_file_becomes_a_section(text: str, expected: str) -> None:
    assert section(text) == (expected, [])


@pytest.mark.parametrize(
    ("text", "expected", "remark"),
    [
        ("See [x](/y.md).", "See x (`/y.md`).\n", "1:5: the link to '/y.md' leads nowhere"),
        ("a\n\n- ![x](y.png)", "a\n\n- x (`y.png`)\n", "3:4: the link to 'y.png' leads nowhere"),
        ("[x](#lost)", "x\n", "1:1: the link to '#lost' leads nowhere"),
        ("[x](javascript:a)", "x (`javascript:a`)\n", "1:1: the link to 'javascript:a' leads nowhere"),
        ("[x](y`z)", "x (`y'z`)\n", "1:1: the link to 'y`z' leads nowhere"),
        ("[~~~](y)\n", "\\[~~~\\] (`y`)\n", "1:1: the link to 'y' leads nowhere"),
        ("[# x](y)\n", "\\[# x\\] (`y`)\n", "1:1: the link to 'y' leads nowhere"),
        ("a <b>c</b>", "a \\<b>c\\</b>\n", "1:3: HTML is shown as text"),
        ("<div>\n# x\n</div>\n", "\\<div>\n### x\n\\</div>\n", "1:1: HTML is shown as text"),
        ("x <!-- y\n\nz -->", "x \\<!-- y\n\nz -->\n", "1:3: HTML is shown as text"),
        ("|`|<b>|`|\n|-|-|-|\n", "|`|\\<b>|`|\n|-|-|-|\n", "1:4: HTML is shown as text"),
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
        (b"a\n<!-- b\n\n# c", "x.md:2:1: the comment that begins here is not closed (end it with -->)"),
        (b"\xc3\xa4 \xff", "x.md:1:3: expected UTF-8 text, found other bytes"),
        ("a\nb\u202ec".encode(), "x.md:2:2: expected text that is seen, found the character U+202E (remove it)"),
        (b"\x1b[31m", "x.md:1:1: expected text that is seen, found the character U+001B (remove it)"),
        ("x\U000e0041".encode(), "x.md:1:2: expected text that is seen, found the character U+E0041 (remove it)"),
        (b"> " * 30 + b"<b>", "x.md:1:1: lists and quotes are nested too deeply"),
        (b"x" * (MAX_BYTES + 1), "x.md:1:1: the file is larger than 64 KiB"),
    ],
)
def test_unclosed_blocks_and_bad_files_are_refused(content: bytes, problem: str) -> None:
    assert [str(found) for found in Page(content, "x.md").problems] == [problem]


def test_title_is_escaped_as_one_line_of_text() -> None:
    tokens = MarkdownIt("commonmark").parse(f"## {escaped('<!-- *x* [y](z) `a` &lt; # ')}\n")
    assert (tokens[1].children or [])[0].content == "<!-- *x* [y](z) `a` &lt; #"


PIECES = st.sampled_from(
    [
        *("# ", "```", "~~~", "<!--", "-->", "<b>", "<pre>", "[", "](", ")", "]", "[a]:", "`", "``", "|", "|-|", "\\"),
        *("> ", "- ", "1. ", "    ", "\n", "\n\n", "===", "---", "a.sh", "/x", "https://a.example", "&#x202e;", '"'),
        *("!", "x", " "),
    ]
)


@settings(max_examples=300)
@given(text=st.lists(PIECES, max_size=25).map("".join))
def test_section_of_any_text_stays_within_its_headings(text: str) -> None:
    page = Page(text.encode(), "x.md")
    made = None if page.problems else page.section("Title", 3, resolve)
    if made is None or made.problems:
        return
    parser = MarkdownIt("commonmark").enable("table")
    environment: dict[str, object] = {}
    tokens = parser.parse(f"# A\n\n## B\n\n{made.text}\n\n## C\n", environment)
    inline = [child for token in tokens for child in _all(token.children or [])]
    assert not environment.get("references")
    assert not [token for token in (*tokens, *inline) if token.type.startswith("html")], made.text
    headings = [token for token in tokens if token.type == "heading_open"]
    assert [heading.tag for heading in headings if heading.level == 0 and heading.tag < "h3"] == ["h1", "h2", "h2"]
    assert all(heading.tag >= "h3" for heading in headings[2:-1])
    links = {
        str(token.attrs.get("href", token.attrs.get("src"))) for token in inline if token.type in ("link_open", "image")
    }
    assert all(link.startswith(("scripts/", "https://", "#deep")) for link in links), made.text


def _all(tokens: list[Token]) -> list[Token]:
    return [one for token in tokens for one in (token, *_all(token.children or []))]


def test_document_as_html_has_anchors_links_and_no_html_of_its_own() -> None:
    text = "<!-- made -->\n# A b\n\n## A b\n\n[in](x.md) [out](y.md) ![p](p.png) <b>\n"
    text += "\n| | c |\n|---|---|\n| 1 | 2 |\n\n    code\n"
    shown = as_html(text, {"x.md": "/help/x", "p.png": "/p.png"}.get)
    assert '<h1 id="a-b">A b</h1>' in shown
    assert '<h2 id="a-b-1">A b</h2>' in shown
    assert '<a href="/help/x">in</a> <a>out</a> <img src="/p.png" alt="p" /> &lt;b&gt;' in shown
    assert '<div class="wide" tabindex="0"><table>' in shown
    assert "<td></td>\n<th>c</th>" in shown
    assert '<pre tabindex="0"><code>code' in shown
    assert "made" not in shown

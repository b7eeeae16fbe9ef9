"""Makes a section of a larger document out of a Markdown file that anyone may have written, and HTML of a document.

Nothing in such a file reaches beyond its section: headings are moved below that of the section, hiding text is removed
(comments, definitions of links), HTML is shown as text, and what would swallow the text behind it is refused.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from markdown_it import MarkdownIt

from packager.base.problems import Problem, show

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from markdown_it.token import Token

    Definitions = dict[str, dict[str, Any]]

MAX_BYTES = 64 << 10
"""How large a file may be."""

_DEEPEST = 6
_MOST_PROBLEMS = 20
# Controls, and what changes the direction of text or is never seen: it can hide what a program reads.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_AUTOLINK = re.compile(r"<(?:https?://[^\s<>]{1,2000}|[\w.+-]{1,100}@[\w.-]{1,200})>")
_BREAK = re.compile(r"<br ?/?>[ \t]*(\n|\Z)?", re.IGNORECASE)
_TAG = re.compile(r"<[A-Za-z/!?]")
_DESTINATION = r"(?:<([^<>\n]{0,2000})>|(?!<)((?:[^\s()\\]|\\.|\([^\s()]{0,500}\)){0,2000}))"
_LINK_TITLE = r"""(?:\s{1,50}("[^"]{0,500}"|'[^']{0,500}'|\([^()]{0,500}\)))?"""
_TARGET = re.compile(rf"\(\s{{0,50}}{_DESTINATION}{_LINK_TITLE}\s{{0,50}}\)")
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999})\]")
_PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#|!&~$])")
_SENTINEL = "end-of-section"

_ENTITY = re.compile(r"&#?[A-Za-z0-9]{1,40};")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
# Characters without a meaning wherever they are in a line.
_PLAIN = re.compile(r"[^\\`<&\[\]!]+")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")
# The beginnings of blocks at the start of a line.
_BLOCK = re.compile(r"#{1,6}(\s|$)|~~~|```|[-+*](\s|$)|=+\s*$|>|[0-9]{1,9}[.)](\s|$)|([-*_]\s*){3,}$")
_MARKERS = " >*+-0123456789.)\t"
_BRACKETS = re.compile(r"[<>\n\\]")


class _Blocks:
    """Finds the blocks of Markdown; the text within lines stays unchanged."""

    def __init__(self, *, html: bool) -> None:
        self._parser = MarkdownIt("commonmark").enable("table").disable("inline")
        self._parser.validateLink = _any_link  # type: ignore[method-assign]
        if not html:
            self._parser.disable("html_block")

    def parse(self, text: str) -> tuple[list[Token], Definitions, list[tuple[int, int]]]:
        """Return the tokens, the definitions of links by their labels, and the lines of all definitions."""
        environment: dict[str, Any] = {}
        tokens = self._parser.parse(text, environment)
        definitions: Definitions = environment.get("references", {})
        every = [*definitions.values(), *environment.get("duplicate_refs", ())]
        return tokens, definitions, [(definition["map"][0], definition["map"][1]) for definition in every]


@cache
def _blocks(*, html: bool) -> _Blocks:
    """Return the one that finds blocks of HTML too, or not: to make it takes longer than to read a page with it."""
    return _Blocks(html=html)


def _any_link(url: str) -> bool:  # noqa: ARG001 - as markdown-it calls it
    """Take every definition for one, wherever it leads."""
    return True


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its first line and the one behind its last, from 0; its level, text and marks."""

    start: int
    end: int
    level: int
    text: str
    marks: str


@dataclass(frozen=True, slots=True)
class PageSection:
    """A section of a larger document.

    Attributes:
        text: The text below its heading.
        remarks: The parts that are not shown as they were written, each with its place.
        name: The file as the user named it.
        level: The highest level of headings.
    """

    text: str
    remarks: tuple[Problem, ...]
    name: str
    level: int

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The reasons why the text cannot be a section; it is parsed for this once more."""
        complaint = _complaint(self.text, self.level)
        return (Problem(self.name, 1, 1, complaint),) if complaint else ()


class Page:
    """A Markdown file.

    Attributes:
        name: The file as the user named it.
        problems: The reasons why the file cannot be a section.
        headings: The headings.
    """

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        self.problems: list[Problem] = []
        self.headings: list[Heading] = []
        self._lines: list[str] = []
        self._code: set[int] = set()
        self._chunks: list[tuple[int, int, bool]] = []
        self._definitions: Definitions = {}
        self._defined: list[tuple[int, int]] = []
        text = self._decoded(content)
        if not self.problems:
            self._read(self._without_comments(text))

    def _decoded(self, content: bytes) -> str:
        if len(content) > MAX_BYTES:
            self.problems.append(Problem(self.name, 1, 1, f"the file is larger than {MAX_BYTES >> 10} KiB"))
            return ""
        try:
            text = content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError as error:
            line, start = content.count(b"\n", 0, error.start) + 1, content.rfind(b"\n", 0, error.start) + 1
            column = len(content[start : error.start].decode("utf-8", "replace")) + 1
            self.problems.append(Problem(self.name, line, column, "expected UTF-8 text, found other bytes"))
            return ""
        for number, line_text in enumerate(text.split("\n"), start=1):
            match = HIDDEN.search(line_text)
            if match and len(self.problems) < _MOST_PROBLEMS:
                message = f"expected text that is seen, found the character U+{ord(match[0]):04X}"
                self.problems.append(Problem(self.name, number, match.start() + 1, message, "remove it"))
        return text

    def _without_comments(self, text: str) -> str:
        """Return the text without comments that are blocks; lines keep their numbers."""
        blocks = _blocks(html=True)
        while not self.problems and "<!--" in text:
            lines = text.split("\n")
            before = text
            for token in blocks.parse(text)[0]:
                if token.type != "html_block" or token.map is None or not token.content.lstrip().startswith("<!--"):
                    continue
                start, end = token.map
                block = "\n".join(lines[start:end])
                if "-->" not in block:
                    column = block.index("<!--") + 1
                    message = "the comment that begins here is not closed"
                    self.problems.append(Problem(self.name, start + 1, column, message, "end it with -->"))
                    break
                lines[start:end] = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), block).split("\n")
            text = "\n".join(lines)
            if text == before:
                break
        return text

    def _read(self, text: str) -> None:
        """Find the blocks, and refuse those that do not end within the file."""
        if self.problems:
            return
        self._lines = text.split("\n")
        last = len(self._lines)
        tokens, self._definitions, self._defined = _blocks(html=False).parse(f"{text}\n\n# {_SENTINEL}\n")
        covered = {line for start, end in self._defined for line in range(start, end)}
        for index, token in enumerate(tokens):
            if token.map is None or token.map[0] >= last:
                continue
            start, end = token.map
            if token.type in ("fence", "code_block"):
                self._code.update(range(start, end))
            elif token.type == "heading_open":
                self.headings.append(Heading(start, end, int(token.tag[1]), tokens[index + 1].content, token.markup))
            elif token.type not in ("paragraph_open", "table_open", "hr"):
                continue
            covered.update(range(start, end))
            if token.type in ("heading_open", "paragraph_open", "table_open"):
                self._chunks.append((start, min(end, last), token.type == "table_open"))
        self._check_end(tokens, covered)

    def _check_end(self, tokens: Sequence[Token], covered: set[int]) -> None:
        """Refuse code that does not end, and lines that no block was made of."""
        if not _ends(tokens):
            fence = next(token for token in reversed(tokens) if token.map)
            self._refuse(fence.map[0] if fence.map else 0, "the block of code that begins here is not closed")
        for number, line in enumerate(self._lines):
            if number not in covered and line.strip(_MARKERS):
                self._refuse(number, "lists and quotes are nested too deeply")
                return

    def _refuse(self, number: int, message: str) -> None:
        line = self._lines[number]
        self.problems.append(Problem(self.name, number + 1, len(line) - len(line.lstrip()) + 1, message))

    @property
    def title(self) -> str | None:
        """The heading that it begins with."""
        first = self.headings[0] if self.headings else None
        is_first = first is not None and not _is_text(list(self._lines[: first.start]))
        return " ".join(first.text.split()) if first and is_first else None

    def anchors(self) -> set[str]:
        """Return the anchors of its headings."""
        return {anchor(heading.text) for heading in self.headings}

    def section(self, title: str, level: int, resolve: Callable[[str], str | None]) -> PageSection:
        """Return the text below a heading.

        Args:
            title: The text of the section's heading; a file that begins with the same heading loses it.
            level: The highest level of headings in the section.
            resolve: Returns the target of a link in the section; None if there is none.
        """
        lines: list[str | None] = list(self._lines)
        for start, end in self._defined:
            lines[start:end] = [None] * (end - start)
        headings = self.headings
        if self.title is not None and anchor(self.title) == anchor(title):
            lines[headings[0].start : headings[0].end] = [None] * (headings[0].end - headings[0].start)
            headings = headings[1:]
        tags: list[Problem] = []
        remarks: list[Problem] = []
        for start, end, is_table in self._chunks:
            if lines[start] is None:
                continue
            rows: list[list[str | None]]
            rows = [[line] for line in lines[start:end]] if is_table else [lines[start:end]]
            changed: list[str | None] = []
            for number, row in enumerate(rows, start=start):
                inline = _Inline("\n".join(line or "" for line in row), self.name, number, self._definitions, resolve)
                changed += inline.text(cells=is_table).split("\n")
                tags.extend(inline.tags)
                remarks.extend(inline.remarks)
            changed[-1:-1] = [None] * (end - start - len(changed))  # a link over several lines is on one now
            lines[start:end] = changed
        self._move(lines, headings, level)
        return PageSection(_joined(lines, self._code), (*tags[:1], *remarks), self.name, level)

    def _move(self, lines: list[str | None], headings: Sequence[Heading], level: int) -> None:
        """Move headings below the level of the section; those that are underlined get marks."""
        top = min((heading.level for heading in headings), default=1)
        for heading in headings:
            marks = "#" * min(_DEEPEST, level + heading.level - top)
            first, original = lines[heading.start] or "", self._lines[heading.start]
            if heading.marks.startswith("#"):
                place = original.index("#")
                lines[heading.start] = first[:place] + marks + first[place:].lstrip("#")
            else:
                place = max(0, original.find(heading.text.partition("\n")[0].strip()))
                rest = [(line or "").strip(" >\t") for line in lines[heading.start + 1 : heading.end - 1]]
                lines[heading.start] = f"{first[:place]}{marks} {' '.join([first[place:].strip(), *rest])}"
                lines[heading.start + 1 : heading.end] = [""] * (heading.end - heading.start - 1)


def _ends(tokens: Sequence[Token]) -> bool:
    """Whether the heading after the text is still a heading."""
    return len(tokens) > 1 and tokens[-2].content == _SENTINEL and tokens[-2].level == 1


def _complaint(text: str, level: int) -> str | None:
    """Return the reason why a text cannot be a section: it reads differently than before; None if it can."""
    tokens, definitions, _ = _blocks(html=True).parse(f"{text}\n\n# {_SENTINEL}\n")
    levels = [int(token.tag[1]) for token in tokens[:-3] if token.type == "heading_open"]
    is_section = (
        _ends(tokens)
        and not definitions
        and min(levels, default=level) >= level
        and not any(token.type == "html_block" for token in tokens)
    )
    return None if is_section else "the text would reach beyond its section: write it in a simpler way"


def _is_text(lines: list[str | None]) -> bool:
    return any(line and line.strip() for line in lines)


def _joined(lines: list[str | None], code: set[int]) -> str:
    """Return the lines as text that ends with one line break; of blank lines outside of code one is kept."""
    kept: list[str] = []
    for number, line in enumerate(lines):
        if number in code:
            kept.append(line or "")
        elif line is not None and (line.strip() or (kept and kept[-1].strip())):
            kept.append(line.rstrip() + ("  " if line.endswith("  ") and line.strip() else ""))
    while kept and not kept[-1].strip():
        kept.pop()
    return "".join(f"{line}\n" for line in kept)


class _Inline:
    """The text of one block: links are resolved, comments removed, HTML escaped."""

    def __init__(
        self, text: str, name: str, line: int, definitions: Definitions, resolve: Callable[[str], str | None]
    ) -> None:
        self._text = text
        self._name = name
        self._line = line
        self._definitions = definitions
        self._resolve = resolve
        self._out: list[str] = []
        self._open: list[tuple[int, int]] = []
        self.tags: list[Problem] = []
        self.remarks: list[Problem] = []

    def text(self, *, cells: bool) -> str:
        """Return the new text; `tags` and `remarks` then have the parts that are not shown as written.

        Args:
            cells: Whether it is a row of a table.
        """
        start = 0
        for part in re.split(r"(?<!\\)\|", self._text) if cells else [self._text]:
            if start:
                self._out.append("|")
            position, end = start, start + len(part)
            spans = _code_spans(self._text, start, end)
            self._open.clear()
            while position < end:
                if plain := _PLAIN.match(self._text, position, end):
                    self._out.append(plain[0])
                    position = plain.end()
                else:
                    position = self._step(position, spans, cells=cells)
            start = end + 1
        return "".join(self._out)

    def _step(self, position: int, spans: dict[int, int], *, cells: bool) -> int:
        """Copy the element at `position`, and return its end."""
        text = self._text
        character = text[position]
        end = position + 1
        if character == "\\" and end < len(text):
            end += 1
        elif character == "`":
            end = spans[position]
        elif character == "<":
            return self._angle(position, cells=cells)
        elif character == "&":
            if (match := _ENTITY.match(text, position)) and HIDDEN.search(html.unescape(match[0])):
                self._out.append("\\")
        elif character == "[":
            is_image = self._out[-1:] == ["!"]
            self._open.append((len(self._out) - is_image, position))
        elif character == "]":
            return self._link(position)
        self._out.append(text[position:end])
        return end

    def _angle(self, position: int, *, cells: bool) -> int:
        if match := _AUTOLINK.match(self._text, position):
            self._out.append(match[0])
        elif match := _BREAK.match(self._text, position):
            self._out.append("  " if match[1] is not None and not cells else " ")
            return match.start(1) if match[1] else match.end()
        elif match := _COMMENT.match(self._text, position):
            self._out.append("\n" * match[0].count("\n"))
        else:
            if _TAG.match(self._text, position):
                self._out.append("\\")
                self.tags.append(self._remark(position, "HTML is shown as text"))
            self._out.append("<")
            return position + 1
        return match.end()

    def _link(self, position: int) -> int:
        """Copy a link or an image whose text ends at `position`."""
        first, opened = self._open.pop() if self._open else (0, position)
        target = self._target(self._text[opened + 1 : position], position + 1) if opened < position else None
        if target is None:
            # Other readers may take more text for a link: this makes it text for all of them.
            self._out.append("]\\" if self._text.startswith("(", position + 1) else "]")
            return position + 1
        path, title, end = target
        resolved = self._resolve(path)
        if resolved is not None:
            self._out.append(f"]({_quoted(resolved)}{f' {title}' if title else ''})")
            return end
        message = f"the link to {show(path)} leads nowhere in the package, and becomes text"
        self.remarks.append(self._remark(opened, message))
        label = "".join(self._out[first:]).removeprefix("!")[1:]
        label = f"\\[{label}\\]" if _BLOCK.match(label) else label
        self._out[first:] = [label, "" if path.startswith("#") else f" ({_code_span(path)})"]
        return end

    def _target(self, label: str, end: int) -> tuple[str, str, int] | None:
        """Return the target of a link, its title in quotes and the end of the link; None if it is not a link."""
        if match := _TARGET.match(self._text, end):
            path = match[1] if match[1] is not None else match[2]
            return _ESCAPE.sub(r"\1", path), match[3] or "", match.end()
        if match := _LABEL.match(self._text, end):
            label, end = match[1] or label, match.end()
        definition = self._definitions.get(" ".join(label.split()).lower().upper())
        if definition is None:
            return None
        title = " ".join(str(definition["title"]).split())
        return str(definition["href"]), f'"{title}"' if title and '"' not in title else "", end

    def _remark(self, position: int, message: str) -> Problem:
        before = self._text[:position]
        column = position - before.rfind("\n")
        return Problem(self._name, self._line + before.count("\n") + 1, column, message)


def unquoted(path: str) -> str:
    """Return a path without escapes such as `%20`."""
    raw = _PERCENT.sub(lambda match: bytes([int(match[1], 16)]), path.encode())
    return raw.decode("utf-8", "replace")


def _code_spans(text: str, start: int, end: int) -> dict[int, int]:
    """Return the end for each backtick in a part of a text: of the code that it begins, or of its run."""
    runs = [(match.start(), match.end()) for match in re.compile("`+").finditer(text, start, end)]
    following: dict[int, list[int]] = {}
    for run_start, run_end in reversed(runs):
        following.setdefault(run_end - run_start, []).append(run_end)
    spans: dict[int, int] = {}
    for run_start, run_end in runs:
        spans |= dict.fromkeys(range(run_start + 1, run_end), run_end)  # of a run behind a backslash
        ends = following[run_end - run_start]
        ends.pop()
        spans[run_start] = ends[-1] if ends else run_end
    return spans


def _code_span(text: str) -> str:
    code = " ".join(text.split()).replace("`", "'")
    return f"`{code}`" if code else "no target"


def _quoted(target: str) -> str:
    return target if re.fullmatch(r"[^\s()<>\\]+", target) else f"<{re.sub(_BRACKETS, '', target)}>"


def anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    text = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower().strip())
    return text.replace(" ", "-")


def escaped(text: str) -> str:
    """Return one line of text as Markdown that shows it."""
    return _PUNCTUATION.sub(r"\\\1", " ".join(text.split()))

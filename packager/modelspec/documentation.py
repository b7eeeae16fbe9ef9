"""Joins the Markdown files of a spec to sections of the README of each package."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from packager.base.errors import reason
from packager.base.problems import Problem
from packager.base.values import Value

if TYPE_CHECKING:
    from pathlib import Path

    from packager.modelspec.files import SpecFiles
    from packager.modelspec.model import Spec

_LEVEL = 3
_DEEPEST = 6
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$", re.MULTILINE)


class ReadmeSection(Value, frozen=True):
    """A section of a README: its title, and the Markdown below it."""

    title: str
    text: str


def read(folder: Path, spec: Spec, sources: SpecFiles) -> tuple[tuple[ReadmeSection, ...], list[Problem]]:
    """Return the sections of a spec in `folder`, and a problem for each file that is not text."""
    sections, problems = [], []
    for entry, file in zip(spec.documentation, sources.documentation, strict=False):  # a missing file is a fault
        try:
            text = file.path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            problems.append(Problem(str(folder / file.name), 0, 0, "expected UTF-8 text, found other bytes"))
        except OSError as error:
            problems.append(Problem(str(folder / file.name), 0, 0, reason(error)))
        else:
            sections.append(ReadmeSection(entry.title, section(text, entry.title)))
    return tuple(sections), problems


def section(text: str, title: str) -> str:
    """Return Markdown with its headings moved below those of sections; a first heading that is the title is dropped."""
    lines, levels, fence = text.strip("\n").split("\n"), {}, ""
    for number, line in enumerate(lines):
        if mark := _FENCE.match(line):
            closes = fence and mark[1].startswith(fence)
            fence = "" if closes else fence or mark[1]
        elif not fence and (heading := HEADING.match(line)):
            levels[number] = len(heading[1])
    if (heading := HEADING.match(lines[0])) and heading[2].strip().lower() == title.strip().lower():
        lines[0] = ""
        del levels[0]
    highest = min(levels.values(), default=_LEVEL)
    for number, level in levels.items():
        lines[number] = "#" * min(_DEEPEST, _LEVEL + level - highest) + " " + lines[number].lstrip(" #\t")
    return "\n".join(lines).strip("\n")

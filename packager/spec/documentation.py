"""Turns the Markdown files of a spec into sections of the README of each package."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packager.base import markdown, plain
from packager.base.errors import reason
from packager.base.problems import Problem, ordered
from packager.base.values import Value
from packager.package.layout import SCRIPTS, SPEC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from packager.base.markdown import Page
    from packager.spec.files import SourceFile, SpecFiles
    from packager.spec.model import Spec, Variant

_LEVEL = 3
_MAX_BYTES = 256 << 10
_ELSEWHERE = re.compile(r"(https?://|mailto:)[^\s<>]+", re.IGNORECASE)


class ReadmeSection(Value, frozen=True):
    """A section of a README: its title as Markdown, and the text below it."""

    title: str
    text: str


class Documentation(Value, frozen=True):
    """The Markdown files of a spec, by the sections' order.

    Attributes:
        titles: The sections' titles.
        files: The files.
        pages: What is in them.
    """

    titles: tuple[str, ...]
    files: tuple[SourceFile, ...]
    pages: tuple[Page, ...]

    def sections(self, spec: Spec, variant: Variant, sources: SpecFiles) -> tuple[list[ReadmeSection], list[Problem]]:
        """Return the sections of a variant's package, and what is not shown in them as it was written."""
        names = _names(spec, variant, sources)
        anchors = {anchor for page in self.pages for anchor in page.anchors()}
        anchors |= {markdown.anchor(title) for title in self.titles}
        own = {file.name: markdown.anchor(title) for file, title in zip(self.files, self.titles, strict=True)}
        sections: list[ReadmeSection] = []
        remarks: list[Problem] = []
        for title, file, page in zip(self.titles, self.files, self.pages, strict=True):
            section = page.section(title, _LEVEL, _resolver(file.name, names, own, anchors))
            sections.append(ReadmeSection(markdown.escaped(title), section.text.rstrip()))
            remarks += section.remarks
        return sections, remarks


def read(folder: Path, spec: Spec, sources: SpecFiles) -> tuple[Documentation, list[Problem]]:
    """Return the documentation of a spec, and why what is in the files cannot be sections.

    Args:
        folder: The spec's folder.
        spec: It.
        sources: Its files.
    """
    pages: list[Page] = []
    problems: list[Problem] = []
    total = 0
    for file in sources.documentation:
        name = str(folder / file.name)
        try:
            with plain.open_below(file.path.parent, file.path.name) as stream:
                content = stream.read(markdown.MAX_BYTES + 1)
        except OSError as error:
            problems.append(Problem(name, 0, 0, reason(error)))
            continue
        total += len(content)
        page = markdown.Page(content, name)
        problems += page.problems
        pages.append(page)
    if total > _MAX_BYTES:
        message = f"the files of `documentation` are more than {_MAX_BYTES >> 10} KiB"
        problems.append(Problem(str(folder / sources.documentation[-1].name), 0, 0, message))
    titles = tuple(entry.title for entry in spec.documentation[: len(pages)])
    documentation = Documentation(titles, sources.documentation, tuple(pages))
    if not problems:
        for page, title in zip(pages, titles, strict=True):
            problems += page.section(title, _LEVEL, lambda target: target).problems
    return documentation, problems


def remarks(spec: Spec, sources: SpecFiles, documentation: Documentation) -> list[Problem]:
    """Return what is not shown as it was written in the README of one of the packages."""
    every = (documentation.sections(spec, variant, sources)[1] for variant in spec.variants)
    return ordered(remark for remarks_of_one in every for remark in remarks_of_one)


def _names(spec: Spec, variant: Variant, sources: SpecFiles) -> dict[str, str]:
    """Return where each file and folder of a model is in a variant's package."""
    code = [file.name for file in sources.code(spec.code_places(spec.variants.index(variant)))]
    assets = [*(file.name for file in sources.assets), *sources.downloads]
    names = {SPEC: SPEC}
    if sources.dockerfile:
        names[sources.dockerfile.name] = "Dockerfile"
    for top, files in ((SCRIPTS, code), ("assets", assets)):
        for name in _with_folders(files):
            names.setdefault(name, f"{top}/{name}")
    return names


def _with_folders(files: Iterable[str]) -> Iterable[str]:
    seen = set()
    for file in files:
        steps = file.split("/")
        for depth in range(len(steps), 0, -1):
            name = "/".join(steps[:depth])
            if name in seen:
                break
            seen.add(name)
            yield name


def _resolver(
    file: str, names: dict[str, str], sections: dict[str, str], anchors: set[str]
) -> Callable[[str], str | None]:
    """Return what finds where a link of the file `file` leads in the README."""

    def resolve(target: str) -> str | None:
        raw, hash_, fragment = target.partition("#")
        path = markdown.unquoted(raw.partition("?")[0])
        if _ELSEWHERE.fullmatch(target):
            return target
        if not raw:
            return target if fragment in anchors else None
        if path.startswith("/") or ":" in path or "\\" in path or "\x00" in path:
            return None
        place = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if place in sections:
            return f"#{fragment if fragment in anchors else sections[place]}"
        if place not in names:
            return None
        return names[place] + (hash_ + fragment if re.fullmatch("[A-Za-z0-9_-]*", fragment) else "")

    return resolve

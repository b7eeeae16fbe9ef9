"""Turns the Markdown files of a spec into sections of the README of each package."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from packager.base import markdown, paths, plainfiles
from packager.base.errors import reason
from packager.base.problems import Problem, ordered
from packager.base.values import Value
from packager.package.layout import SCRIPTS, SPEC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from packager.base.markdown import Page
    from packager.modelspec.files import SpecFiles
    from packager.modelspec.model import Spec, Variant

_LEVEL = 3
_MAX_BYTES = 256 << 10
_ELSEWHERE = re.compile(r"(https?://|mailto:)[^\s<>]+", re.IGNORECASE)


class ReadmeSection(Value, frozen=True):
    """A section of a README: its title as Markdown, and the text below it."""

    title: str
    text: str


class Documentation:
    """The sections of the READMEs of a spec's packages.

    Args:
        spec: The spec.
        sources: The files that the spec names.
        pages: The contents of its Markdown files.
    """

    def __init__(self, spec: Spec, sources: SpecFiles, pages: Sequence[Page]) -> None:
        self._spec = spec
        self._sources = sources
        self._titles = [entry.title for entry in spec.documentation[: len(pages)]]
        self._pages = pages
        self._latest: tuple[tuple[str, ...], _Readme] | None = None

    def sections(self, variant: Variant) -> tuple[ReadmeSection, ...]:
        """Return the sections of a variant's package."""
        return self._readme(variant).sections

    def remarks(self) -> list[Problem]:
        """Return the parts that the README of one of the packages does not show as they were written."""
        return ordered(remark for variant in self._spec.variants for remark in self._readme(variant).remarks)

    def problems(self) -> list[Problem]:
        """Return the reasons why the files cannot become sections."""
        made = (page.section(title, _LEVEL, lambda target: target) for title, page in self._titled())
        return [problem for section in made for problem in section.problems]

    def _readme(self, variant: Variant) -> _Readme:
        """Return the README of a variant's package; it is made again if its code differs from that of the latest."""
        places = self._spec.code_places(self._spec.variants.index(variant))
        code = tuple(file.name for file in self._sources.code(places))
        if self._latest is None or self._latest[0] != code:
            self._latest = code, self._made(code)
        return self._latest[1]

    def _made(self, code: Sequence[str]) -> _Readme:
        names = _names(code, self._sources)
        anchors = {anchor for page in self._pages for anchor in page.anchors()}
        anchors |= {markdown.anchor(title) for title in self._titles}
        files = [file.name for file in self._sources.documentation]
        anchors_by_file = {file: markdown.anchor(title) for file, title in zip(files, self._titles, strict=True)}
        made = [
            page.section(title, _LEVEL, _resolver(file, names, anchors_by_file, anchors))
            for file, (title, page) in zip(files, self._titled(), strict=True)
        ]
        return _Readme(
            tuple(
                ReadmeSection(markdown.escaped(title), section.text.rstrip())
                for title, section in zip(self._titles, made, strict=True)
            ),
            tuple(remark for section in made for remark in section.remarks),
        )

    def _titled(self) -> Iterable[tuple[str, Page]]:
        return zip(self._titles, self._pages, strict=True)


class _Readme(Value, frozen=True):
    """The sections of a README, and remarks on the parts that they do not show as written."""

    sections: tuple[ReadmeSection, ...]
    remarks: tuple[Problem, ...]


def read(folder: Path, spec: Spec, sources: SpecFiles) -> tuple[Documentation, list[Problem]]:
    """Return the documentation of a spec, and the reasons why its files cannot become sections.

    Args:
        folder: The spec's folder.
        spec: The spec.
        sources: The files that the spec names.
    """
    pages: list[Page] = []
    problems: list[Problem] = []
    total = 0
    for file in sources.documentation:
        name = str(folder / file.name)
        try:
            with plainfiles.open_below(file.path.parent, file.path.name) as stream:
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
    documentation = Documentation(spec, sources, pages)
    return documentation, problems or documentation.problems()


def _names(code: Sequence[str], sources: SpecFiles) -> dict[str, str]:
    """Return the path in a package with this code, by the path in the model, of each file and folder."""
    assets = [*(file.name for file in sources.assets), *sources.downloads]
    names = {SPEC: SPEC}
    if sources.dockerfile:
        names[sources.dockerfile.name] = "Dockerfile"
    for top, files in ((SCRIPTS, code), ("assets", assets)):
        for name in (*files, *paths.folders_above(files)):
            names.setdefault(name, f"{top}/{name}")
    return names


def _resolver(
    file: str, names: dict[str, str], sections: dict[str, str], anchors: set[str]
) -> Callable[[str], str | None]:
    """Return a function that resolves the target of a link in `file` to its target in the README, or to None."""

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

"""YAML -> Spec: reads a spec file, applies `--set`, and reports every problem at once."""

from __future__ import annotations

import hashlib
import re
from copy import deepcopy
from itertools import takewhile
from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.errors import SpecError, reason
from packager.base.problems import Problem, listed
from packager.base.values import Value
from packager.modelspec import check, code
from packager.modelspec.conversion import completed
from packager.modelspec.files import SpecFiles, collect
from packager.modelspec.model import Spec
from packager.modelspec.schema import json_schema
from packager.modelspec.settings import Setting, apply, misplaced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.problems import Fault
    from packager.base.yamlio import Document, Location

_MAX_ENTRIES = 2_000
_LEVEL = 3
_DEEPEST = 6
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$", re.MULTILINE)


class ReadmeSection(Value, frozen=True):
    """A section of a README: its title, and the Markdown below it."""

    title: str
    text: str


class LoadedSpec(Value, frozen=True):
    """A valid spec with the files that it names."""

    spec: Spec  # the values
    path: Path  # the spec file
    text: bytes  # the bytes of the spec file, as the package contains them
    sources: SpecFiles  # the files that the spec names
    settings: tuple[Setting, ...]  # the changes by `--set`
    documentation: tuple[ReadmeSection, ...] = ()  # the README's sections
    too_large: tuple[Problem, ...] = ()  # the problems of code that only the option package-volume can mount

    @property
    def digest(self) -> str:
        """The sha256 of the spec file, in hex."""
        return hashlib.sha256(self.text).hexdigest()


def load(path: Path, settings: Sequence[Setting] = (), *, may_mount: bool = False) -> LoadedSpec:
    """Read the spec at `path` with `settings` applied, and check it and the files that it names.

    If the option package-volume may be on (`may_mount`), code need not fit into ConfigMaps. Raises SpecError with all
    problems.
    """
    name = str(path)
    text, document, spec, wrong, problems = _read(path, settings)
    if spec is not None:
        sources, missing = collect(path.parent, spec)
        others = [fault for fault in (*missing, *check.check(spec, sources)) if not fault.rests_on(wrong)]
        problems.extend(_problem(document, settings, fault) for fault in others)
        faults_of_size = (fault for fault in code.too_large(spec, sources) if not fault.rests_on(wrong))
        too_large = tuple(_problem(document, settings, fault) for fault in faults_of_size)
        if not may_mount:
            problems.extend(too_large)
        sections, section_problems = _sections(path.parent, spec, sources)
        problems.extend(section_problems)
        if not problems:
            return LoadedSpec(spec, path, text, sources, tuple(settings), sections, too_large)
    raise invalid(name, problems)


def parse(path: Path, settings: Sequence[Setting]) -> tuple[Spec, bytes]:
    """Return the values of the spec at `path`, with `settings` applied, and its bytes; its files are not read."""
    text, _, spec, _, problems = _read(path, settings)
    if problems or spec is None:
        raise invalid(str(path), problems)
    return spec, text


def _read(
    path: Path, settings: Sequence[Setting]
) -> tuple[bytes, Document, Spec | None, list[Location], list[Problem]]:
    """Return the bytes of a spec, the document, and the values with `settings` applied; see `completed`."""
    name = str(path)
    try:
        with path.open("rb") as stream:
            text = stream.read(yamlio.MAX_BYTES + 1)
    except OSError as error:
        raise SpecError(f"{name}: {reason(error)}") from None
    document, problems = yamlio.load(text, name)
    if document.is_empty:
        raise invalid(name, problems or [Problem(name, 1, 1, "the file is empty", "`mlpack init NAME` creates one")])
    if oversized := list(document.oversized(_MAX_ENTRIES)):
        raise invalid(name, problems + oversized)
    data = deepcopy(document.data) if settings else document.data
    problems.extend(misplaced(document.data, settings))
    for setting in settings:
        problems.extend(apply(data, setting))
    spec, faults, wrong = completed(data, Spec, json_schema)
    problems.extend(_problem(document, settings, fault) for fault in faults)
    return text, document, spec, wrong, problems


def _problem(document: Document, settings: Sequence[Setting], fault: Fault) -> Problem:
    """Return the fault with its place: a setting, if the value came from it, else a line of the file."""
    depth = document.depth(fault.location)
    for setting in reversed(settings):
        pairs = zip(setting.location, fault.location, strict=False)
        common = sum(1 for _ in takewhile(lambda pair: str(pair[0]) == str(pair[1]), pairs))
        if common == len(setting.location) or depth < common:
            return Problem(setting.label, 0, 0, fault.message, fault.hint)
    return document.problem_of(fault)


def invalid(name: str, problems: Sequence[Problem]) -> SpecError:
    """Return the error for a spec with these problems; `name` is its path."""
    count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
    ordered = sorted(problems, key=lambda problem: (problem.file, problem.line, problem.column))
    return SpecError(f"{name} is not a valid spec: {count}", problems=listed(ordered))


def _sections(folder: Path, spec: Spec, sources: SpecFiles) -> tuple[tuple[ReadmeSection, ...], list[Problem]]:
    """Return the README's sections of a spec in `folder`, and a problem for each file that is not text."""
    sections, problems = [], []
    for entry, file in zip(spec.documentation, sources.documentation, strict=False):  # a missing file is a fault
        try:
            sections.append(ReadmeSection(entry.title, section(file.path.read_text(encoding="utf-8-sig"), entry.title)))
        except ValueError:
            problems.append(Problem(str(folder / file.name), 0, 0, "expected UTF-8 text, found other bytes"))
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

"""Every overlay through every kubectl: to the same bytes, and without a word."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from packager import yamlio
from packager.errors import RenderError, ToolError
from packager.kubectl import kustomize
from packager.package import OVERLAYS
from packager.problems import Problem
from packager.verify import kustomization
from packager.verify.origins import Place
from packager.verify.overlay import Manifest, Overlay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from packager.package import Package
    from packager.verify.sources import Sources
    from packager.yamlio import Location

# Rendered, the code of the whole package stands in one stream.
_MAX_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one overlay.

    Attributes:
        overlay: Rendered; None when it was not.
        problems: What is wrong with it.
        unchecked: Why it could not be found out, when it could not.
        sources: What it is made of.
    """

    overlay: Overlay | None
    problems: tuple[Problem, ...]
    unchecked: tuple[str, ...]
    sources: Sources


def render(package: Package, name: str, kubectls: Sequence[str]) -> Outcome:
    """Render the overlay `name` with each of `kubectls`; never one that draws in what is not in the package."""
    sources = kustomization.read(package, f"{OVERLAYS}/{name}")
    if sources.broken:
        return Outcome(None, tuple(sources.problems), (), sources)
    problems, unchecked = list(sources.problems), []
    first: tuple[str, str] | None = None
    for program in kubectls:
        try:
            rendered = kustomize(package.overlay(name), program=program)
        except ToolError as error:
            unchecked.append(f"{error}, so {name} was not rendered with it")
            continue
        except RenderError as error:
            message = _plain(str(error), package)
            problems.append(Problem(*_place(message, sources), message))
            continue
        problems += [Problem(*sources.start, f"{program}: {_plain(line, package)}") for line in rendered.warnings]
        if first is None:
            first = program, rendered.manifests
        elif rendered.manifests != first[1]:
            where = _difference(first[1], rendered.manifests)
            problems.append(Problem(*sources.start, f"{program} renders something else than {first[0]}: {where}"))
    overlay = None
    if first is not None:
        documents, found = yamlio.load_all(first[1].encode(), sources.start.file, max_bytes=_MAX_BYTES)
        problems += [Problem(*sources.start, f"what it renders to: {problem.message}") for problem in found]
        manifests = tuple(Manifest(document.data) for document in documents if isinstance(document.data, dict))
        overlay = Overlay(name, manifests, sources)
    return Outcome(overlay, tuple(problems), tuple(unchecked), sources)


def _plain(said: str, package: Package) -> str:
    """Return kubectl's words on one line, without its log's prefix, and with files called as the user calls them."""
    words = " ".join(said.replace('\\"', '"').split())
    return words.replace(str(package.folder.resolve()), str(package.source)).replace(
        str(package.folder), str(package.source)
    )


def _place(said: str, sources: Sources) -> Place:
    """Return where a kustomization says what kubectl's words quote; where the overlay begins, when none does."""
    for quoted in sorted(re.findall(r"[\w./=\[\]-]{3,}", said), key=len, reverse=True):
        for document in sources.kustomizations:
            if location := _location(document.data, quoted):
                problem = document.problem(location, "")
                return Place(problem.file, problem.line, problem.column)
    return sources.start


def _location(value: Any, text: str) -> Location | None:
    """Return where `text` stands among the values below `value`."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        if child == text:
            return (step,)
        if (inside := _location(child, text)) is not None:
            return (step, *inside)
    return None


def _difference(one: str, other: str) -> str:
    for number, (left, right) in enumerate(zip(one.splitlines(), other.splitlines(), strict=False), start=1):
        if left != right:
            return f"line {number} is {right.strip()!r} instead of {left.strip()!r}"
    return "one of them has more lines"

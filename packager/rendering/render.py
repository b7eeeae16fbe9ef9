"""Renders overlays with each kubectl: all print the same bytes, without warnings. Tests: verify/test_messages.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base import yamlio
from packager.base.errors import RenderError, ToolError, VerificationError
from packager.base.paths import DEFAULT_LIMITS
from packager.base.problems import Problem, ordered, show
from packager.base.values import Value
from packager.kubernetes.kubectl.kustomize import Rendered, kustomize
from packager.kubernetes.manifest import Manifest
from packager.package import integrity, layout
from packager.rendering import kustomization
from packager.rendering.overlay import RenderedOverlay

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.base.process import Runner
    from packager.package.opened import Package
    from packager.rendering.sources import Sources

# The rendered stream contains the code of the whole package.
_MAX_BYTES = 16 << 20


def read(package: Package, name: str) -> Sources:
    """Return the sources of the overlay `name`, if kubectl may render it.

    Raises:
        VerificationError: The overlay is broken, or includes files from outside of the package. The problems also list
            the package's files that differ from the sealed ones.
        ToolError: A file cannot be read.
    """
    sources = kustomization.read(package, layout.overlay(name))
    if sources.refused:
        problems = ordered([*sources.refused, *integrity.check(package, DEFAULT_LIMITS).problems])
        raise VerificationError(f"{package.source}: {name} cannot be rendered", problems=problems)
    return sources


def kubectl(package: Package, name: str, sources: Sources, program: str, runner: Runner) -> Rendered:
    """Return kubectl's output for an overlay, rendered from a copy of the files that were read.

    Raises:
        ToolError: kubectl is missing, timed out or printed too much.
        RenderError: kubectl refused the overlay, or printed nothing.
    """
    with sources.copied() as copy:
        try:
            rendered = kustomize(copy / layout.overlay(name), program=program, runner=runner)
        except RenderError as error:
            raise RenderError(_with_user_paths(str(error), copy, package)) from None
    warnings = tuple(_with_user_paths(line, copy, package) for line in rendered.warnings)
    return Rendered(rendered.manifests, warnings)


class Outcome(Value, frozen=True):
    """The result of rendering one overlay."""

    overlay: RenderedOverlay | None  # the rendered overlay; None if no kubectl rendered it
    problems: tuple[Problem, ...]  # the problems of the overlay
    unchecked: tuple[str, ...]  # the reasons why a kubectl could not be run
    sources: Sources  # the files of the overlay
    rendered: str = ""  # the output of the first kubectl, from which the overlay was read


def render(package: Package, name: str, kubectls: Sequence[str], runner: Runner) -> Outcome:
    """Render the overlay `name` with each of `kubectls`, unless it includes files from outside of the package."""
    sources = kustomization.read(package, layout.overlay(name))
    if sources.refused:
        return Outcome(None, tuple(sources.problems), (), sources)
    problems, unchecked = list(sources.problems), []
    first: tuple[str, str] | None = None
    for program in kubectls:
        try:
            rendered = kubectl(package, name, sources, program, runner)
        except ToolError as error:
            unchecked.append(f"{error}, so {name} was not rendered with it")
            continue
        except RenderError as error:
            problems.append(Problem(*sources.start, str(error)))
            continue
        problems += [Problem(*sources.start, f"{program}: {line}") for line in rendered.warnings]
        if first is None:
            first = program, rendered.manifests
        elif rendered.manifests != first[1]:
            difference = _difference(first[1], rendered.manifests)
            problems.append(Problem(*sources.start, f"{program} does not render the same as {first[0]}: {difference}"))
    overlay = None
    if first is not None:
        documents, yaml_problems = yamlio.load_all(first[1].encode(), sources.start.file, max_bytes=_MAX_BYTES)
        non_objects = [document for document in documents if not isinstance(document.data, dict)]
        yaml_problems += [
            document.problem((), f"expected an object, found {show(document.data)}") for document in non_objects
        ]
        problems += [Problem(*sources.start, f"what it renders to: {problem.message}") for problem in yaml_problems]
        manifests = tuple(Manifest(document.data) for document in documents if isinstance(document.data, dict))
        claim = package.workspace if name == layout.WORKSPACE else None
        overlay = RenderedOverlay(name, manifests, sources, claim)
    return Outcome(overlay, tuple(problems), tuple(unchecked), sources, first[1] if first else "")


def _with_user_paths(output: str, copy: Path, package: Package) -> str:
    """Return kubectl's message on one line, with the paths that the user gave."""
    words = " ".join(output.replace('\\"', '"').split())
    return words.replace(str(copy.resolve()), str(package.source)).replace(str(copy), str(package.source))


def _difference(one: str, other: str) -> str:
    for number, (left, right) in enumerate(zip(one.splitlines(), other.splitlines(), strict=False), start=1):
        if left != right:
            return f"line {number} is {right.strip()!r} instead of {left.strip()!r}"
    return "one of them has more lines"

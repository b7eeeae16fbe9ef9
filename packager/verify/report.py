"""Report: the result of verifying a package, as data; the command line decides how it is printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.problems import Problem
    from packager.kubernetes.podsecurity import Level
    from packager.verify.changes import EditedLine
    from packager.verify.objects import Made
    from packager.verify.security import Exceeded


@dataclass(frozen=True, slots=True)
class Security:
    """The Pod Security level of an overlay, and every field that keeps it from a stricter one.

    The level is None if the overlay has a workload whose pods were not checked, or no workload.

    Attributes:
        overlay: Its name.
        level: The one that it keeps within in every version of Kubernetes that was asked for.
        exceeded: Those fields.
        levels: The level in each version: the versions of each level.
    """

    overlay: str
    level: Level | None
    exceeded: tuple[Exceeded, ...]
    levels: Mapping[Level, list[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a package.

    Attributes:
        package: Its name.
        digest: The digest that it was sealed with.
        received: The digest of all its files as they are; None if one of them is missing, not sealed or unread.
        problems: What is wrong, in order of file and line.
        edits: Editable files that have been edited.
        unchecked: What could not be found out, and why; neither good nor bad.
        security: For each overlay that could be rendered.
        objects: What the overlays make.
        notes: What may not mean what it seems to, and is no problem when it does.
        changes: The lines that were edited.
        kubernetes: The versions whose schemas were checked against.
        kubectls: What rendered.
        server: Whether a cluster was asked.
    """

    package: str
    digest: str
    problems: tuple[Problem, ...]
    edits: tuple[str, ...]
    unchecked: tuple[str, ...]
    security: tuple[Security, ...]
    kubernetes: tuple[str, ...]
    kubectls: tuple[str, ...]
    server: bool
    objects: tuple[Made, ...] = ()
    changes: tuple[EditedLine, ...] = ()
    notes: tuple[Problem, ...] = ()
    received: str | None = None

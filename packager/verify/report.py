"""What verifying found, as data; how it is printed is the command line's affair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packager.problems import Problem
    from packager.verify.security import Exceeded, Level


@dataclass(frozen=True, slots=True)
class Security:
    """The Pod Security level of an overlay, and every field that keeps it from a stricter one."""

    overlay: str
    level: Level
    exceeded: tuple[Exceeded, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on a package.

    Attributes:
        package: Its name.
        digest: Its digest.
        problems: What is wrong, in order of file and line.
        edits: Files that people are meant to edit and somebody did: no damage.
        unchecked: What could not be found out, and why; neither good nor bad.
        security: For each overlay that could be rendered.
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

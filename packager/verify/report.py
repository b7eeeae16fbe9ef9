"""Report: the result of verifying a package, as data. Tests: verify/test_verify.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.problems import Problem
    from packager.kubernetes.podsecurity import Level
    from packager.verify.changes import EditedLine
    from packager.verify.objects import Made
    from packager.verify.security import Exceeded


class Security(Value, frozen=True):
    """The Pod Security level of an overlay, and every field that exceeds a stricter one.

    The level is None if the overlay has a workload whose pods were not checked, or no workload.

    Attributes:
        overlay: The overlay's name.
        level: The strictest level that the overlay meets in every requested version of Kubernetes.
        exceeded: The fields that exceed a stricter level.
        levels: The versions of Kubernetes in which the overlay meets each level.
    """

    overlay: str
    level: Level | None
    exceeded: tuple[Exceeded, ...]
    levels: Mapping[Level, list[str]]


class Report(Value, frozen=True):
    """The result of verifying a package.

    Attributes:
        package: The package's name.
        digest: The digest that the package was sealed with.
        version: The version in its inventory; None without one.
        images: The images of each overlay that could be rendered.
        renders: The digest of the output of kubectl for each overlay.
        files: The paths of the files of each overlay that could be rendered.
        received: The digest of all files as they are; None if a file is missing, was not sealed or could not be read.
        problems: The problems, in order of file and line.
        edits: The editable files that have been edited.
        unchecked: The checks that could not be made, each with the reason; they count as neither passed nor failed.
        security: The Pod Security level of each overlay that could be rendered.
        objects: The objects that the overlays make.
        notes: Facts that the user should know, and that are not problems.
        changes: The edited lines.
        kubernetes: The versions of Kubernetes whose schemas the manifests were checked against.
        kubectls: The kubectl programs that rendered the overlays.
        server: Whether a server-side dry run was requested.
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
    images: Mapping[str, tuple[str, ...]] = {}
    renders: Mapping[str, str] = {}
    files: Mapping[str, frozenset[str]] = {}
    received: str | None = None
    version: str | None = None

"""Report: the result of verifying a package, as data. Tests: verify/test_verify.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from packager.base.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.problems import Problem
    from packager.kubernetes.podsecurity import Level
    from packager.verify.changes import EditedLine
    from packager.verify.objects import Made
    from packager.verify.security import Exceeded

FindingKind = Literal["problem", "note", "unchecked"]


class Finding(Value, frozen=True):
    """What a check returns: a problem, a fact that the user should know, or the reason why something is unknown."""

    kind: FindingKind
    content: Problem | str  # text only for a reason


class Security(Value, frozen=True):
    """The Pod Security level of an overlay, and every field that exceeds a stricter one."""

    overlay: str
    level: Level | None  # None if the overlay has a workload whose pods were not checked, or no workload
    exceeded: tuple[Exceeded, ...]
    levels: Mapping[Level, list[str]]  # the versions of Kubernetes in which the overlay meets each level


class OverlayReport(Value, frozen=True):
    """The part of a report that describes one overlay that could be rendered."""

    name: str
    versions: tuple[str, ...]  # of Kubernetes, whose schemas the manifests were checked against
    security: Security
    objects: tuple[Made, ...]
    images: tuple[str, ...]
    render: str  # the digest of kubectl's output
    files: frozenset[str]  # that it was rendered from


class Report(Value, frozen=True):
    """The result of verifying a package."""

    package: str
    digest: str  # with which it was sealed
    problems: tuple[Problem, ...]
    edits: tuple[str, ...]  # the editable files that have been edited
    unchecked: tuple[str, ...]  # why checks could not be made; they count as neither passed nor failed
    security: tuple[Security, ...]
    kubernetes: tuple[str, ...]  # the versions that all overlays were checked against
    kubectls: tuple[str, ...]
    server: bool  # whether a dry run was requested
    objects: tuple[Made, ...] = ()
    changes: tuple[EditedLine, ...] = ()
    notes: tuple[Problem, ...] = ()
    images: Mapping[str, tuple[str, ...]] = {}
    renders: Mapping[str, str] = {}
    files: Mapping[str, frozenset[str]] = {}
    received: str | None = None  # the digest of all files as they are; None if one is missing, unread or was not sealed

"""Report: the result of verifying a package, as data. Tests: verify/test_verify.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from packager.base.errors import ToolError, VerificationError
from packager.base.masking import bounded
from packager.base.values import Value, as_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packager.base.problems import Problem
    from packager.kubernetes.podsecurity import Level
    from packager.verify.changes import EditedLine
    from packager.verify.objects import Made
    from packager.verify.security import Exceeded

FindingKind = Literal["problem", "note", "unchecked"]


class Finding(Value, frozen=True):
    """A result of a check: a problem, a fact that the user should know, or the reason why something is unknown."""

    kind: FindingKind
    content: Problem | str  # text only for a reason


class Security(Value, frozen=True):
    """The Pod Security level of an overlay, and every field that exceeds a stricter one."""

    overlay: str
    level: Level | None  # None if the overlay has a workload whose pods were not checked, or no workload
    exceeded: tuple[Exceeded, ...]
    levels: Mapping[Level, list[str]]  # the versions of Kubernetes in which the overlay meets each level

    def as_json(self) -> dict[str, Any]:
        """Return the level for `-o json`."""
        fields = [{**as_dict(field), "place": field.place._asdict()} for field in self.exceeded]
        return {**as_dict(self), "exceeded": fields}


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
    version: str | None = None  # in its inventory
    proofs: tuple[str, ...] = ()  # sentences about a second build, and about the bundle that contains the package

    @property
    def is_valid(self) -> bool | None:
        """Whether the package is valid; None when that could not be determined."""
        return False if self.problems else None if self.unchecked else True

    @property
    def exit_code(self) -> int:
        """5 when there is a problem, 6 when there is none but a check could not be made, else 0."""
        if self.problems:
            return VerificationError.exit_code
        return ToolError.exit_code if self.unchecked else 0

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        content = as_dict(self)
        del content["files"], content["proofs"]
        for findings in ("problems", "notes"):
            content[findings] = [finding.as_json() for finding in content[findings]]
        for values in ("objects", "changes"):
            content[values] = [as_dict(value) for value in content[values]]
        content["security"] = [security.as_json() for security in self.security]
        return {"valid": self.is_valid, "exit_code": self.exit_code, **bounded(content)}

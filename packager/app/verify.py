"""Verifies that a package from an untrusted source can be trusted to run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager import verify as stage
from packager.base.errors import ToolError, UsageError, VerificationError
from packager.base.names import is_other_version
from packager.base.problems import Problem
from packager.base.shortening import bounded
from packager.base.values import Value, as_dict, replace
from packager.kubernetes.allowed import words
from packager.kubernetes.podsecurity import Level
from packager.package.opened import opened
from packager.publish.reference import is_bundle
from packager.verify import Checks, objects, schema
from packager.verify.expected import is_digest

__all__ = [
    "Checks",
    "Verification",
    "allowed_words",
    "expected_digest",
    "is_bundle",
    "kubernetes_versions",
    "level",
    "verify",
]

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.app.rebuild import RebuildRequest
    from packager.publish.load import BundleContents
    from packager.verify.report import Report
    from packager.verify.security import Exceeded


class Verification(Value, frozen=True):
    """The result of verifying a package.

    Attributes:
        report: The problems, notes and unchecked parts.
        proofs: Sentences about a second build, and about the bundle that contains it.
    """

    report: Report
    proofs: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool | None:
        """Whether the package is valid; None when that could not be determined."""
        if self.report.problems:
            return False
        return None if self.report.unchecked else True

    @property
    def exit_code(self) -> int:
        """5 when there is a problem, 6 when there is none but a check could not be made, else 0."""
        if self.report.problems:
            return VerificationError.exit_code
        return ToolError.exit_code if self.report.unchecked else 0

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        content = as_dict(self.report)
        del content["files"]
        for findings in ("problems", "notes"):
            content[findings] = [finding.as_json() for finding in content[findings]]
        for values in ("objects", "changes"):
            content[values] = [as_dict(value) for value in content[values]]
        content["security"] = [
            {**as_dict(security), "exceeded": [_exceeded_json(field) for field in security.exceeded]}
            for security in self.report.security
        ]
        return {"valid": self.is_valid, "exit_code": self.exit_code, **bounded(content)}


def _exceeded_json(field: Exceeded) -> dict[str, Any]:
    return {**as_dict(field), "place": field.place._asdict()}


def verify(
    path: Path,
    checks: Checks,
    rebuild: RebuildRequest | None = None,
    bundle: BundleContents | None = None,
    tag: str | None = None,
) -> Verification:
    """Verify the package at `path`, a folder or an archive.

    Args:
        path: The package.
        checks: The options.
        rebuild: The spec that the package is built from again; None builds nothing.
        bundle: The bundle that the package comes from; None for none.
        tag: The tag by which it was pulled; None for none.

    Raises:
        UsageError: The path or the spec does not exist.
        VerificationError: The path is not a package, or the package exceeds the limits.
    """
    with opened(path, limits=checks.limits) as package:
        report = stage.verify(package, checks)
    notes: list[str] = []
    problems = list(report.problems)
    if rebuild is not None:
        from packager.app.rebuild import rebuild as build_again

        rebuilt = build_again(path, rebuild, checks.limits)
        problems += rebuilt.problems
        notes += [rebuilt.note] if rebuilt.note else []
    if bundle is not None:
        from packager.publish.load import differences
        from packager.publish.load import notes as bundle_notes

        problems += differences(bundle, bundle.package, report.digest)
        notes += bundle_notes(bundle, {image for images in report.images.values() for image in images})
        tag = bundle.package.tag
    if is_other_version(tag, report.version):
        message = f"the tag is {tag}, and the version of the package is {report.version}"
        problems.append(Problem(str(path), 0, 0, message, "name the package by its digest if that is meant"))
    return Verification(replace(report, problems=tuple(problems)), tuple(notes))


def allowed_words(arguments: Sequence[str]) -> frozenset[str]:
    """Return the kinds, fields, labels, annotations and variables that `--allow` names.

    Raises:
        UsageError: An argument has none of these forms.
    """
    for word in arguments:
        if not words.is_word(word):
            raise UsageError(f"--allow {word}: {words.EXPECTED}")
        if complaint := _unknown_field(word):
            raise UsageError(f"--allow {word}: {complaint[0]}", hint=complaint[1])
    return frozenset(arguments)


def _unknown_field(word: str) -> tuple[str, str | None] | None:
    """Return the message about a field that its kind does not have, and a hint; None if it has the field."""
    name, _, path = word.partition(".")
    made = {kind.lower(): (api, kind) for api, kind in objects.MADE}
    return schema.unknown_step(*made[name], path) if name in made and path else None


def expected_digest(digest: str | None) -> str | None:
    """Return the digest that `--expect` names.

    Raises:
        UsageError: The text is not a digest.
    """
    if digest is not None and not is_digest(digest):
        raise UsageError(f"--expect {digest}: expected sha256: and 64 hexadecimal digits, as `mlpack verify -v` prints")
    return digest


def level(name: str | None) -> Level | None:
    """Return the Pod Security level that `--pod-security` names.

    Raises:
        UsageError: There is no level of this name.
    """
    if name is not None and name not in list(Level):
        raise UsageError(f"--pod-security {name}: expected {', '.join(Level)}")
    return Level(name) if name is not None else None


def kubernetes_versions() -> tuple[str, ...]:
    """Return the versions of Kubernetes that manifests can be checked against, the oldest first."""
    return tuple(schema.versions())

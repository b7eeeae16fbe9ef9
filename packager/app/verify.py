"""Verifies that a package from an untrusted source can be trusted to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager import verify as stage
from packager.base.errors import UsageError
from packager.base.names import is_other_version
from packager.base.problems import Problem
from packager.base.values import replace
from packager.kubernetes.allowed import words
from packager.kubernetes.podsecurity import Level
from packager.package.opened import opened
from packager.publish.reference import is_bundle, is_digest
from packager.verify import Checks, objects, schema

__all__ = [
    "Checks",
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


def verify(
    path: Path,
    checks: Checks,
    rebuild: RebuildRequest | None = None,
    bundle: BundleContents | None = None,
    tag: str | None = None,
) -> Report:
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
    return replace(report, problems=tuple(problems), proofs=tuple(notes))


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

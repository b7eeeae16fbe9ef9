"""Verifies that a package from an untrusted source can be trusted to run."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from packager import verify as stage
from packager.base.errors import UsageError
from packager.base.values import replace
from packager.kubernetes.allowed import words
from packager.kubernetes.podsecurity import Level
from packager.package import tarheader
from packager.package.opened import opened
from packager.publish.reference import is_digest
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

    from packager.app.bundle_contents import BundleContents
    from packager.app.rebuild import RebuildRequest
    from packager.verify.report import Report


def verify(
    path: Path,
    checks: Checks,
    rebuild: RebuildRequest | None = None,
    bundle: BundleContents | None = None,
) -> Report:
    """Verify the package at `path`, a folder or an archive.

    Args:
        path: The package.
        checks: The options.
        rebuild: The spec that the package is built from again; None builds nothing.
        bundle: The bundle that the package comes from; None for none.

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
        from packager.app.bundle_contents import differences
        from packager.app.bundle_contents import notes as bundle_notes

        problems += differences(bundle, bundle.package, report.digest)
        notes += bundle_notes(bundle, {image for images in report.images.values() for image in images})
    return replace(report, problems=tuple(problems), proofs=tuple(notes))


def is_bundle(path: Path) -> bool:
    """Whether a file is a tar that is not compressed, as bundles are and packages are not; False if it is missing.

    A file that cannot be read is reported by what reads the package.
    """
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as stream:
                return tarheader.is_tar(stream.read(tarheader.BLOCK))
    return False


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

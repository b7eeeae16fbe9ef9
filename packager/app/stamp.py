"""Stamps a package: states what `verify` has proven of it, in a file beside it.

Tests: cli/test_stamp.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import packager
from packager import verify as stage
from packager.app.stamps import beside, kubectl_version
from packager.base import atomic
from packager.base.errors import ToolError, VerificationError
from packager.base.fetch import digest_of
from packager.package.opened import opened
from packager.publish import bundle, stamp
from packager.publish.bundle import STAMP, Subject
from packager.publish.stamp import OverlayStamp, Stamp

if TYPE_CHECKING:
    from pathlib import Path

    from packager.publish.signer import Signer
    from packager.verify import Checks


@dataclass(frozen=True, slots=True)
class StampRequest:
    """A package that is stamped.

    Attributes:
        package: The archive or the folder.
        checks: The options of the verification.
        created: The time as RFC 3339.
        output: The file that is written; None for the one beside the package.
        signer: The key that signs the stamp; None leaves it unsigned.
        force: Whether an existing stamp is replaced.
    """

    package: Path
    checks: Checks
    created: str
    output: Path | None = None
    signer: Signer | None = None
    force: bool = False


@dataclass(frozen=True, slots=True)
class WrittenStamp:
    """A stamp that was written.

    Attributes:
        path: The file.
        statement: The statement.
        signed_by: The fingerprint of the key; None for an unsigned stamp.
    """

    path: Path
    statement: dict[str, Any]
    signed_by: str | None

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"path": str(self.path), "signed_by": self.signed_by, "statement": self.statement}


def write(request: StampRequest) -> WrittenStamp:
    """Verify a package, and write its stamp.

    Raises:
        UsageError: The package does not exist, or the stamp does.
        VerificationError: The package has problems, or was edited.
        ToolError: Something could not be checked, or the stamp cannot be written.
    """
    checks = request.checks
    with opened(request.package, limits=checks.limits) as package:
        report = stage.verify(package, checks)
        is_archive = package.folder != package.source
        digest, name = package.digest, package.name
    if report.problems:
        message = f"{request.package} did not pass verification; no stamp was written"
        raise VerificationError(message, problems=report.problems)
    if report.edits:
        message = f"{request.package} was edited: {', '.join(report.edits)}; no stamp was written"
        raise VerificationError(message, hint="a stamp is of a package as it was built")
    if report.unchecked:
        raise ToolError(f"{report.unchecked[0]}; no stamp was written")
    levels = {one.overlay: one.level for one in report.security}
    overlays = {
        overlay: OverlayStamp(render, str(levels[overlay]) if levels.get(overlay) else None, report.images[overlay])
        for overlay, render in report.renders.items()
    }
    kubectls = dict.fromkeys(kubectl_version(program, checks.runner) for program in checks.kubectls)
    facts = Stamp(request.created, tuple(kubectls), report.kubernetes, overlays)
    subjects = [Subject(digest, f"{name}/manifest.json")]
    if is_archive:
        subjects.append(Subject(f"sha256:{digest_of(request.package)}", request.package.name))
    payload = bundle.statement(subjects, STAMP, stamp.predicate(facts, name, packager.__version__))
    path = request.output or beside(request.package)
    with atomic.file(path, exists_hint=None if request.force else "--force replaces it") as stream:
        stream.write((payload if request.signer is None else request.signer.bundle(payload)) + b"\n")
    by = None if request.signer is None else request.signer.public.fingerprint
    return WrittenStamp(path, json.loads(payload), by)

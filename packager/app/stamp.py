"""Stamps a package: states what `verify` has proven of it, in a file beside it; and uses such a file.

Tests: cli/test_stamp.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import packager
from packager import verify as stage
from packager.base import atomic, jsonio
from packager.base.errors import ToolError, UsageError, VerificationError, unreadable
from packager.base.fetch import digest_of
from packager.base.problems import Problem
from packager.package.opened import opened
from packager.publish import bundle, stamp
from packager.publish.bundle import BUNDLE_BYTES, BundleError, Subject
from packager.publish.stamp import OverlayStamp, Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from packager.app.signatures import Trust
    from packager.base.runner import Runner
    from packager.publish.signer import Signer
    from packager.verify import Checks
    from packager.verify.report import Report

_ENDING = ".stamp.json"
_SECONDS = 30.0
_ENVELOPE = b'"dsseEnvelope"'


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
class StampedPackage:
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


@dataclass(frozen=True, slots=True)
class StampChecks:
    """The way a stamp is used.

    Attributes:
        file: The file; None for the one beside the package, if there is one.
        required: The properties that a trusted stamp must have.
        trust: The keys.
    """

    file: Path | None
    required: tuple[str, ...]
    trust: Trust


@dataclass(frozen=True, slots=True)
class StampUse:
    """The result of using a stamp: sentences for people, and problems of the package."""

    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def beside(package: Path) -> Path:
    """Return the file with the stamp of a package."""
    return package.with_name(f"{package.name}{_ENDING}")


def write(request: StampRequest) -> StampedPackage:
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
    payload = bundle.statement(subjects, stamp.STAMP, stamp.predicate(facts, name, packager.__version__))
    path = request.output or beside(request.package)
    with atomic.file(path, exists_hint=None if request.force else "--force replaces it") as stream:
        stream.write(_signed(payload, request.signer) + b"\n")
    by = None if request.signer is None else request.signer.public.fingerprint
    return StampedPackage(path, json.loads(payload), by)


def _signed(payload: bytes, signer: Signer | None) -> bytes:
    if signer is None:
        return payload
    return bundle.compose(payload, signer.sign(bundle.signed_bytes(payload)), signer.public.fingerprint)


def kubectl_version(program: str, runner: Runner) -> str:
    """Return the version of a kubectl, such as 1.36.2. Raises ToolError."""
    done = runner.run([program, "version", "--client", "-o", "json"], timeout=_SECONDS, offline=True)
    try:
        value = jsonio.read(done.stdout.encode())
        version = str(value["clientVersion"]["gitVersion"]).removeprefix("v").partition("+")[0].partition("-")[0]
    except (jsonio.JsonError, KeyError, TypeError):
        version = ""
    if not stamp.is_version(version):
        raise ToolError(f"{program}: the version is unknown")
    return version


def use(path: Path, report: Report, checks: StampChecks, kubectls: Sequence[str], runner: Runner) -> StampUse:
    """Return the claims of a stamp, and the problems if it is of another package or lacks a required property.

    Args:
        path: The package.
        report: The result of the verification.
        checks: The stamp, and the properties that are required.
        kubectls: The programs that have rendered the package.
        runner: Starts kubectl.

    Raises:
        UsageError: There is no such file.
        ToolError: The stamp cannot be read or checked.
    """
    file = checks.file or beside(path)
    try:
        with file.open("rb") as stream:
            content = stream.read(BUNDLE_BYTES + 1).strip()
    except FileNotFoundError:
        if checks.file is not None:
            raise UsageError(f"{file} does not exist") from None
        return StampUse(problems=_missing(file, checks.required, ()))
    except OSError as error:
        raise unreadable(file, error) from None
    try:
        payload, signer, by = _opened(content, checks.trust)
        statement = bundle.read_statement(payload)
        facts = stamp.read(statement)
    except BundleError as error:
        return StampUse(problems=(Problem(str(file), 0, 0, f"the stamp is not valid: {error}"),))
    if report.digest not in statement.digests:
        message = f"the stamp is of another package: expected {report.digest}, found {', '.join(statement.digests)}"
        return StampUse(problems=(Problem(str(file), 0, 0, message),))
    if signer is None:
        return StampUse((f"{by}: its claims are not used",), _missing(file, checks.required, ()))
    notes = [f"stamped by {signer} on {facts.created[:10]}: {_summary(facts)}"]
    if report.edits:
        notes.append(f"the stamp is of the package as delivered: {', '.join(report.edits)} edited since")
        return StampUse(tuple(notes), _missing(file, checks.required, ()))
    problems = [*_missing(file, checks.required, facts.properties), *_other_renders(report, facts, kubectls, runner)]
    return StampUse(tuple(notes), tuple(problems))


def _opened(content: bytes, trust: Trust) -> tuple[bytes, str | None, str]:
    """Return the statement, the name of the trusted signer, and a sentence about another one. Raises BundleError."""
    try:
        envelope = bundle.read(content)
    except BundleError:
        if _ENVELOPE in content:
            raise
        bundle.read_statement(content)  # an unsigned stamp is the statement alone
        return content, None, "the stamp is not signed"
    key = trust.verifier.key_of(envelope.signature, bundle.signed_bytes(envelope.payload))
    if key is None and envelope.hint in [known.fingerprint for known in trust.verifier.keys]:
        raise BundleError(f"the signature is not one of the key {envelope.hint}, which it names")
    if key is None:
        return envelope.payload, None, f"stamped by an unknown key{f' {envelope.hint}' if envelope.hint else ''}"
    return envelope.payload, key.name, ""


def _summary(facts: Stamp) -> str:
    levels = {overlay.level or "unknown" for overlay in facts.overlays.values()}
    spans = f"kubectl {_span(facts.kubectls)}, Kubernetes {_span(facts.kubernetes)}"
    return f"{spans}, Pod Security {', '.join(sorted(levels))}"


def _span(versions: Sequence[str]) -> str:
    minors = list(dict.fromkeys(stamp.minor(version) for version in versions))
    return minors[0] if len(minors) == 1 else f"{minors[0]} to {minors[-1]}" if minors else "none"


def _missing(file: Path, required: Sequence[str], properties: Sequence[str]) -> tuple[Problem, ...]:
    return tuple(
        Problem(str(file), 0, 0, f"{name} is required, and no stamp by a trusted key states it")
        for name in required
        if name not in properties
    )


def _other_renders(report: Report, facts: Stamp, kubectls: Sequence[str], runner: Runner) -> list[Problem]:
    """Return a problem for each overlay that renders otherwise than it was stamped with a kubectl of this version."""
    stamped = {stamp.minor(version) for version in facts.kubectls}
    if not any(stamp.minor(kubectl_version(program, runner)) in stamped for program in kubectls):
        return []
    return [
        Problem(overlay, 0, 0, f"renders otherwise ({render}) than when it was stamped ({known.render})")
        for overlay, render in report.renders.items()
        if (known := facts.overlays.get(overlay)) is not None and known.render != render
    ]

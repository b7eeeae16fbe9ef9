"""Makes the statements that a push attaches to an artefact: the package's stamp, and its provenance.

Flux accepts an artefact by any bundle that refers to it, is signed by the key, and names it. So each statement that is
attached names the artefact, and is attached only together with a signature. A push signs no claims of others: a stamp
is signed again only if one of the keys has signed it.

Tests: cli/test_push_statements.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.app import stamps
from packager.app.stamps import StampedPackage, judge
from packager.base.errors import UsageError, VerificationError
from packager.base.paths import argument
from packager.publish import bundle, provenance
from packager.publish.bundle import BUNDLE_BYTES, PROVENANCE, STAMP, Subject
from packager.publish.signatures import Verifier

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

    from packager.app.progress import Tell
    from packager.base.runner import Runner
    from packager.package.opened import Package
    from packager.publish.signer import Signer
    from packager.publish.stamp import Stamp

_SIGN = "`mlpack stamp --force --sign-key KEY"


@dataclass(frozen=True, slots=True)
class StatementRequest:
    """The statements that a user asks for.

    Attributes:
        stamp: The file with the stamp; None for the one beside the package, if there is one.
        without_stamp: Whether no stamp is attached.
        provenance: Whether the provenance is attached.
    """

    stamp: Path | None = None
    without_stamp: bool = False
    provenance: bool = False


@dataclass(frozen=True, slots=True)
class Attached:
    """A statement that is attached: its type, and the bundle."""

    predicate_type: str
    content: bytes

    @property
    def name(self) -> str:
        """The name for people."""
        return "stamp" if self.predicate_type == STAMP else "provenance"


@dataclass(frozen=True, slots=True)
class StatementSubject:
    """The package that the statements are about.

    Attributes:
        package: The package.
        edits: The files that were edited since it was built.
        renders: The digest of the output of kubectl for each overlay; None if nothing was verified.
        kubectl: The kubectl of the verification.
        runner: Starts kubectl.
        artefact: The digest of the artefact.
        subjects: The subjects of the statements: the inventory, the layer and the artefact.
    """

    package: Package
    edits: tuple[str, ...]
    renders: Mapping[str, str] | None
    kubectl: str
    runner: Runner
    artefact: str
    subjects: tuple[Subject, ...]


def statements(
    request: StatementRequest, subject: StatementSubject, signers: tuple[Signer, ...], tell: Tell
) -> tuple[Attached, ...]:
    """Return the statements that are attached.

    Args:
        request: The statements that the user asks for.
        subject: The package.
        signers: The keys that sign.
        tell: Receives a note about a stamp that is left out.

    Raises:
        UsageError: A statement is asked for without a key, or a stamp does not exist.
        VerificationError: The stamp is not one of this package, or states something that does not hold.
        ToolError: The stamp cannot be read.
    """
    asked = "--provenance" if request.provenance else "--stamp" if request.stamp is not None else None
    if asked is not None and not signers:
        raise UsageError(f"{asked} needs --sign-key: what a registry has must be signed")
    attached = [] if request.without_stamp else list(_stamp(request, subject, signers, tell))
    if request.provenance and subject.edits:
        edited = ", ".join(subject.edits)
        raise VerificationError(
            f"{subject.package.source} was edited since it was built: {edited}; nothing was pushed",
            hint="leave out --provenance: an edited package is not as it was built",
        )
    if request.provenance:
        attached += _signed(PROVENANCE, provenance.predicate(subject.package.inventory), subject, signers)
    return tuple(attached)


def _signed(
    predicate_type: str, predicate: Mapping[str, Any], subject: StatementSubject, signers: tuple[Signer, ...]
) -> Iterable[Attached]:
    payload = bundle.statement(subject.subjects, predicate_type, predicate)
    contents = [signer.bundle(payload) for signer in signers]
    if any(len(content) > BUNDLE_BYTES for content in contents):
        raise VerificationError(f"a statement of {subject.package.source} has more than {BUNDLE_BYTES >> 10} KiB")
    return [Attached(predicate_type, content) for content in contents]


def _stamp(
    request: StatementRequest, subject: StatementSubject, signers: tuple[Signer, ...], tell: Tell
) -> Iterable[Attached]:
    """Return the bundles of the stamp.

    A stamp by one of the keys is signed again, so that it names the artefact. One by another key is attached as it is
    if it names the artefact already. An unsigned one is not attached: anyone may have written its claims, and a push
    proves only some of them.
    """
    file = request.stamp or stamps.beside(subject.package.source)
    content = stamps.content_of(file, BUNDLE_BYTES + 1, is_named=request.stamp is not None)
    if content is None and request.stamp is not None:
        raise UsageError(f"{file} does not exist", hint="`mlpack stamp` writes the stamp of a package")
    if content is None:
        return ()
    if obstacle := _obstacle(file, subject, signers):
        if request.stamp is not None:
            raise VerificationError(obstacle)
        tell(f"note: {obstacle}")
        return ()
    from packager.publish.signer import is_valid  # a signer exists, so its library is installed

    judged = judge(content, subject.package.digest, Verifier(tuple(signer.public for signer in signers), is_valid))
    if judged.statement is None or judged.facts is None or judged.problem is not None:
        raise VerificationError(f"{file}: {judged}; nothing was pushed", hint="--stamp none leaves it out")
    if not judged.is_signed:
        message = f"the stamp {file} is not pushed, as no key has signed it"
        hint = f"{_SIGN} {argument(subject.package.source)}` proves its claims here, and signs them"
        if request.stamp is not None:
            raise VerificationError(message, hint=hint)
        tell(f"note: {message}: {hint}")
        return ()
    _check(file, judged.facts, subject)
    if judged.signer is not None:
        return _signed(STAMP, judged.statement.predicate, subject, signers)
    if subject.artefact in judged.statement.digests:
        return [Attached(STAMP, content)]
    by = f"another key{f' {judged.fingerprint}' if judged.fingerprint else ''}"
    raise VerificationError(
        f"{file} is signed by {by}, and does not name the artefact {subject.artefact}; nothing was pushed",
        hint="sign with the key of the stamp, or --stamp none leaves it out",
    )


def _obstacle(file: Path, subject: StatementSubject, signers: tuple[Signer, ...]) -> str | None:
    """Return the reason why a stamp cannot be attached; None without one."""
    if not signers:
        return f"the stamp {file} is not pushed, as nothing is signed: --sign-key signs it"
    if subject.edits:
        edited = ", ".join(subject.edits)
        return f"the stamp {file} is not pushed: {subject.package.source} was edited since it was built: {edited}"
    return None


def _check(file: Path, facts: Stamp, subject: StatementSubject) -> None:
    """Refuse a stamp whose renders are not those of the verification. Raises VerificationError or ToolError."""
    if subject.renders is None:
        return
    package = subject.package
    stamped = StampedPackage(package.source, package.digest, (), subject.renders, (subject.kubectl,), subject.runner)
    if problems := stamps.other_renders(stamped, facts):
        raise VerificationError(f"{file} does not hold here; nothing was pushed", problems=problems)

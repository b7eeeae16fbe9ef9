"""Judges the stamps of a package: those in the file beside it, and those that its registry has.

Tests: cli/test_stamp.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packager.app.signatures import one_line
from packager.base import jsonio, plainfiles
from packager.base.errors import ToolError, UsageError, unreadable
from packager.base.problems import Problem
from packager.base.values import Value
from packager.publish import bundle, stamp
from packager.publish.bundle import BUNDLE_BYTES, BundleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from packager.app.signatures import Trust
    from packager.base.runner import Runner
    from packager.publish.bundle import Statement
    from packager.publish.signatures import Verifier
    from packager.publish.stamp import Stamp

_ENDING = ".stamp.json"
_SECONDS = 30.0
_ENVELOPE = b'"dsseEnvelope"'
_MOST = 16
_UNUSED = "its claims are not used"


class JudgedStamp(Value, frozen=True):
    """A stamp, and whether its claims can be trusted.

    Attributes:
        content: The stamp.
        statement: The statement; None if the stamp is not valid.
        facts: The claims; None if the stamp is not valid.
        signer: The name of the trusted key that has signed it; None for another key, or none.
        fingerprint: The fingerprint of this key; for another key, the one that the stamp names; None without one.
        is_signed: Whether it has a signature.
        problem: The reason why it is refused, whichever key has signed it.
    """

    content: bytes
    statement: Statement | None = None
    facts: Stamp | None = None
    signer: str | None = None
    fingerprint: str | None = None
    is_signed: bool = False
    problem: str | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether a trusted key has signed it for this package."""
        return self.signer is not None and self.problem is None

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {
            "signer": self.signer if self.is_trusted else None,
            "fingerprint": self.fingerprint,
            "trusted": self.is_trusted,
            "problem": self.problem,
            "created": self.facts.created if self.facts else None,
            "properties": list(self.facts.properties) if self.facts else [],
        }

    def __str__(self) -> str:
        if self.problem is not None or self.facts is None:
            return f"the stamp is {self.problem}"
        if self.signer is not None:
            return f"stamped by {self.signer} on {self.facts.created[:10]}: {_summary(self.facts)}"
        if not self.is_signed:
            return f"the stamp is not signed: {_UNUSED}"
        by = f"stamped by an unknown key{f' {self.fingerprint}' if self.fingerprint else ''}"
        return f"{by}: {_UNUSED}"


class StampChecks(Value, frozen=True):
    """The way stamps are used.

    Attributes:
        file: The file; None for the one beside the package, if there is one.
        required: The properties that a trusted stamp must have.
        trust: The keys.
        attached: The stamps that the registry of the package has; None for a package on disk.
    """

    file: Path | None
    required: tuple[str, ...]
    trust: Trust
    attached: tuple[bytes, ...] | None = None


class LocalPackage(Value, frozen=True):
    """A package on disk.

    Attributes:
        path: The path.
        stamps: The stamps that the registry of the package has; None for a package that comes from no registry.
    """

    path: Path
    stamps: tuple[bytes, ...] | None = None


class StampedPackage(Value, frozen=True):
    """A package that is compared with its stamps.

    Attributes:
        path: The path.
        digest: The digest of the package.
        edits: The files that were edited since it was built.
        renders: The digest of kubectl's output for overlays.
        kubectls: The programs that have rendered them.
        runner: Starts kubectl.
    """

    path: Path
    digest: str
    edits: tuple[str, ...]
    renders: Mapping[str, str]
    kubectls: tuple[str, ...]
    runner: Runner


class StampUse(Value, frozen=True):
    """The result of using stamps: sentences for people, and problems of the package."""

    notes: tuple[str, ...]
    problems: tuple[Problem, ...]


def beside(package: Path) -> Path:
    """Return the file with the stamps of a package; `.` has no name of its own."""
    package = package if package.name else package.absolute()
    return package.with_name(f"{package.name}{_ENDING}")


def lines(stamps: Iterable[JudgedStamp]) -> bytes:
    """Return the content of the file for those stamps that are of the package, one a line."""
    return b"".join(one_line(judged.content) for judged in stamps if judged.problem is None)


def use(package: StampedPackage, checks: StampChecks) -> StampUse:
    """Return the claims of the stamps, and the problems if one is of another package or a property is missing.

    A stamp in a file has to be of the package. Of those in a registry, where others may have attached anything, the
    ones that are not count for nothing.

    Raises:
        UsageError: There is no such file.
        ToolError: A stamp cannot be read or checked.
    """
    file = checks.file or beside(package.path)
    is_attached = checks.file is None and checks.attached is not None
    contents = checks.attached if is_attached else read(file, is_named=checks.file is not None)
    place = str(package.path if is_attached else file)
    notes: list[str] = []
    problems: list[Problem] = []
    properties: set[str] = set()
    for content in contents or ():
        judged = judge(content, package.digest, checks.trust.verifier)
        if judged.problem is not None and not is_attached:
            problems.append(Problem(place, 0, 0, str(judged)))
            continue
        notes.append(str(judged))
        if judged.facts is not None and not judged.is_signed and not is_attached and not package.edits:
            problems += other_renders(package, judged.facts)  # no key is needed to prove a render
        if not judged.is_trusted or judged.facts is None:
            continue
        if package.edits:
            edited = f"the stamp is of the package as delivered: {', '.join(package.edits)} edited since"
            notes.append(edited)
            continue
        properties |= set(judged.facts.properties)
        problems += other_renders(package, judged.facts)
    problems += [
        Problem(place, 0, 0, f"{name} is required, and no stamp by a trusted key states it")
        for name in checks.required
        if name not in properties
    ]
    return StampUse(tuple(notes), tuple(problems))


def judge(content: bytes, digest: str, verifier: Verifier) -> JudgedStamp:
    """Return a stamp of the package with this digest. Raises ToolError if its signature cannot be checked."""
    try:
        payload, signer, fingerprint, is_signed = _opened(content, verifier)
        statement = bundle.read_statement(payload)
        facts = stamp.read(statement)
    except BundleError as error:
        return JudgedStamp(content, problem=f"not valid: {error}")
    problem = None
    if digest not in statement.digests:
        problem = f"of another package: expected {digest}, found {', '.join(statement.digests)}"
    return JudgedStamp(content, statement, facts, signer, fingerprint, is_signed, problem)


def _opened(content: bytes, verifier: Verifier) -> tuple[bytes, str | None, str | None, bool]:
    """Return the statement, the trusted signer, the key's fingerprint, and whether it is signed. Raises BundleError."""
    try:
        envelope = bundle.read(content)
    except BundleError:
        if _ENVELOPE in content:
            raise
        bundle.read_statement(content)  # an unsigned stamp is the statement alone
        return content, None, None, False
    key = verifier.key_of(envelope.signature, bundle.signed_bytes(envelope.payload))
    if key is None and envelope.hint in [known.fingerprint for known in verifier.keys]:
        raise BundleError(f"the signature is not one of the key {envelope.hint}, which it names")
    if key is None:
        return envelope.payload, None, envelope.hint, True
    return envelope.payload, key.name, key.fingerprint, True


def read(file: Path, *, is_named: bool = False) -> list[bytes]:
    """Return the stamps in a file, one a line; none if there is no such file, unless the user has named it.

    Raises:
        UsageError: There is no such file.
        ToolError: The file cannot be read.
    """
    content = content_of(file, _MOST * BUNDLE_BYTES, is_named=is_named)
    if content is None and is_named:
        raise UsageError(f"{file} does not exist")
    if content is None:
        return []
    try:
        jsonio.read_object(content)
    except jsonio.JsonError:
        stamps = [line for line in content.splitlines() if line.strip()]
        return stamps[:_MOST] or [content]
    return [content]


def content_of(file: Path, most: int, *, is_named: bool) -> bytes | None:
    """Return the beginning of a file of stamps, without space around it; None if there is no such file.

    Args:
        file: The path. It may lead to a pipe only if the user has named it.
        most: The most bytes that are read.
        is_named: Whether the user has named the file.

    Raises:
        ToolError: The file cannot be read.
    """
    try:
        with file.open("rb") if is_named else plainfiles.open_linked(file) as stream:
            return stream.read(most).strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(file, error) from None


def other_renders(package: StampedPackage, facts: Stamp) -> list[Problem]:
    """Return a problem for each overlay that renders otherwise than it was stamped with a kubectl of this version.

    Raises:
        ToolError: The version of a kubectl is unknown.
    """
    stamped = {stamp.minor(version) for version in facts.kubectls}
    if not any(stamp.minor(kubectl_version(program, package.runner)) in stamped for program in package.kubectls):
        return []
    return [
        Problem(overlay, 0, 0, f"renders otherwise ({render}) than when it was stamped ({known.render})")
        for overlay, render in package.renders.items()
        if (known := facts.overlays.get(overlay)) is not None and known.render != render
    ]


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


def _summary(facts: Stamp) -> str:
    levels = {overlay.level or "unknown" for overlay in facts.overlays.values()}
    spans = f"kubectl {_span(facts.kubectls)}, Kubernetes {_span(facts.kubernetes)}"
    return f"{spans}, Pod Security {', '.join(sorted(levels))}"


def _span(versions: Sequence[str]) -> str:
    minors = list(dict.fromkeys(stamp.minor(version) for version in versions))
    return minors[0] if len(minors) == 1 else f"{minors[0]} to {minors[-1]}" if minors else "none"

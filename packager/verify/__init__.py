"""Verifies an untrusted package: its files, how it renders, and its manifests.

`Case` reads the package and its edits, and renders each overlay with each kubectl; the checks of CHECKS_OF_PACKAGES and
CHECKS_OF_OVERLAYS yield findings about them; `Case.report` orders these. "Could not be checked" is a third result, and
is never mixed with "valid" or "invalid".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.base.problems import Problem, ordered
from packager.kubernetes.manifest import dotted
from packager.package import layout
from packager.verify import (
    additions,
    allowed_fields,
    changes,
    credentials,
    objects,
    options,
    runnable,
    schema,
    security,
    taken,
)
from packager.verify.case import MOST_NOTES, Case, Checks, Finding, FindingKind, OverlayCase, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from packager.base.problems import Fault
    from packager.kubernetes.manifest import Manifest
    from packager.package.opened import Package
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.case import OverlayReport

__all__ = ["MOST_NOTES", "Checks", "Report", "trust", "verify"]


def verify(package: Package, checks: Checks) -> Report:
    """Return the report on `package`."""
    case = Case.read(package, checks)
    findings = [Finding(kind, found) for kind, check in CHECKS_OF_PACKAGES for found in check(case)]
    overlays = []
    for overlay in case.overlays(findings):
        for kind, check in CHECKS_OF_OVERLAYS:
            try:
                findings += [Finding(kind, found) for found in check(overlay)]
            except ToolError as error:
                reason = f"{error}, so what edits have brought to {overlay.overlay.name} is unknown"
                findings.append(Finding("unchecked", reason))
        if checks.server is not None:
            from packager.verify import server  # noqa: PLC0415 - compiles many patterns, for this option alone

            findings += server.check(overlay, checks.server)
        overlays.append(overlay.report())
    findings += [Finding("problem", problem) for problem in _unread_additions(case, overlays)]
    return case.report(overlays, findings)


def trust(package: Package, overlay: RenderedOverlay, checks: Checks) -> list[Problem]:
    """Return the problems for which an overlay must not be applied: the part of `verify` that takes only milliseconds.

    kubectl is started only for a package with edits: if the level is not "restricted", a pod has a service account, or
    an edit changes more than ids, values and switches. Edits of the editable files are accepted.

    Args:
        package: The package.
        overlay: An overlay of the package, rendered by `packager.rendering.render.read` and `kubectl`.
        checks: The options; only kubectl, level, allowed kinds, namespace and limits are used.
    """
    case = Case.read(package, checks)
    of_overlay = OverlayCase(case, overlay)
    problems = [*case.files.problems, *overlay.sources.refused, *_edits(case)]
    problems += [problem for check in PERMISSIONS for problem in check(of_overlay)]
    problems += _fields(of_overlay, ())
    if case.files.unread and not problems:
        raise case.files.unread[0]
    return ordered(problems)


def _overlays(case: Case) -> Iterator[Problem]:
    """Yield a problem for a package without overlays, and for each that its sequence names and it does not have."""
    if not case.package.overlays:
        yield Problem(str(case.package.source), 0, 0, "the package has no overlay")
    for name in case.package.sequence:
        if name not in case.package.overlays:
            message = f"the sequence names the overlay {name!r}, which the package does not have"
            yield Problem(case.package.shown(layout.INVENTORY), 0, 0, message)


def _edits(case: Case) -> Iterator[Problem]:
    """Yield the problems with the package's edits and its digest, which do not depend on the rendered manifests."""
    edits, package, expected = case.edits, case.package, case.checks.expected
    if not edits.is_complete:
        message = f"more than {changes.MOST_LINES:,} lines are edited, more than anyone reads"
        yield Problem(str(package.source), 0, 0, message, "build the package again with these values")
    for change in edits.lines:
        is_value = change.expected or change.file.endswith(".env")  # a value cannot be written in several lines
        if not is_value and (size := len(change.after or "")) > changes.LONGEST_LINE:
            message = f"this edited line has {size:,} characters, of which only {changes.LONGEST_LINE:,} are shown"
            yield Problem(change.file, change.line, 1, message, "write it in several lines")
    is_sealed = expected == package.digest
    if expected in (None, case.files.received) or (is_sealed and not (case.files.edits or case.files.options)):
        return
    received = case.files.received or "unknown, as its files differ from those it was sealed with"
    if is_sealed:
        message = f"{expected} is the digest of the package as it was sealed, but it has been edited"
        yield Problem(str(package.source), 0, 0, message, f"as received, its digest is {received}")
    else:
        message = f"expected the digest {expected}, found {package.digest} (sealed); as received: {received}"
        yield Problem(str(package.source), 0, 0, message)


def _unread_additions(case: Case, overlays: Sequence[OverlayReport]) -> Iterator[Problem]:
    """Yield each file of a site's component that no overlay reads, unless an overlay is unknown.

    Nothing has judged the content of such a file.
    """
    if len(overlays) < len(case.package.applied):
        return
    for path in case.files.edits:
        if layout.is_added(path) and not any(path in overlay.files for overlay in overlays):
            message = "no overlay reads this file, so it is not one of a component"
            yield Problem(case.package.shown(path), 0, 0, message, "delete it, or list its folder under `components`")


def _schemas(case: OverlayCase) -> Iterator[Problem]:
    for manifest, fault in case.schema_faults:
        yield case.overlay.problem(manifest, fault.location, fault.message, fault.hint, at_key=fault.at_key)


def _fields(case: OverlayCase, schema_faults: Sequence[tuple[Manifest, Fault]]) -> Iterator[Problem]:
    """Yield the fields that exceed the Pod Security level, and unlisted fields that no other check reports.

    If no level is requested, only fields that an edit has added exceed it.
    """
    level = case.checks.level
    by_level = case.exceeded if level else security.lowered(case.exceeded, case.original)
    yield from security.breaches(by_level, level) if level else security.weakened(by_level)
    judged = {(str(manifest), dotted(fault.location)) for manifest, fault in schema_faults}
    judged |= {(field.manifest, field.field) for field in by_level}
    yield from allowed_fields.check(case.overlay, case.checks.allowed, frozenset(judged))


def _unknown(case: OverlayCase) -> Iterator[str]:
    """Yield the reason for each manifest that was not checked against a schema, or has no Pod Security level."""
    for manifest in case.overlay.manifests:
        if (manifest.api, manifest.kind) not in schema.kinds():
            api = manifest.data.get("apiVersion")
            yield f"{case.overlay.name}: {manifest} was not checked against a schema: none for {api} {manifest.kind}"
    for manifest in case.unknown if case.checks.level is not None else ():
        yield f"{case.overlay.name}: the Pod Security level of {manifest} is unknown"


OF_MANIFESTS = (
    *(runnable.check, objects.check_kinds),
    *(options.check_gitops, options.check_gang, options.check_code, options.check_placement),
)
"""The checks whether Kubernetes and the operators accept the values of manifests, and can start the pods."""

CHECKS_OF_PACKAGES: tuple[tuple[FindingKind, Callable[[Case], Iterable[Problem | str]]], ...] = (
    ("problem", lambda case: case.files.problems),
    ("note", lambda case: case.files.notes),
    ("unchecked", lambda case: map(str, case.files.unread)),
    ("problem", _overlays),
    ("problem", _edits),
)
"""The checks of a package's files and edits, and what each of them finds."""

PERMISSIONS: tuple[Callable[[OverlayCase], Iterable[Problem]], ...] = (
    lambda case: runnable.by_tag(case.overlay) if case.checks.must_be_locked else (),
    lambda case: additions.check_variables(case.overlay),
    lambda case: objects.check(case.overlay, case.checks.allowed, case.checks.namespace),
    lambda case: credentials.check(case.overlay, case.checks.allowed, case.original),
    lambda case: additions.check(case.overlay, case.original, case.checks.allowed),
    lambda case: objects.check_workspace(case.overlay),
)
"""The checks that `trust` makes too."""

CHECKS_OF_OVERLAYS: tuple[tuple[FindingKind, Callable[[OverlayCase], Iterable[Problem | str]]], ...] = (
    ("problem", _schemas),
    *(("problem", lambda case, check=check: check(case.overlay)) for check in OF_MANIFESTS),
    *(("problem", check) for check in PERMISSIONS),
    ("problem", lambda case: _fields(case, case.schema_faults)),
    ("note", lambda case: taken.notes(case.overlay, case.exceeded, case.original, of_edits=case.checks.has_notes)),
    ("unchecked", _unknown),
)
"""The checks of a rendered overlay, and what each of them finds."""

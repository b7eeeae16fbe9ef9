"""Verifies an untrusted package: its files, how it renders, and its manifests.

    integrity     its files against the digests and modes of the inventory
    rendering     the overlays as written, read without kustomize, with nothing from outside the package; and each
                  rendered by each kubectl
    schema        each manifest, by the fields that each version of Kubernetes has
    objects, credentials: the objects that the package creates, and what its pods use from their namespace
    allowed_fields: every field, label and annotation that no build, option or kind makes
    environment   the variables that the package sets
    names, references, containers, podspec, kinds, options: whether Kubernetes and the operators accept the values
    security      the Pod Security level: reported; a problem if it exceeds the requested one, or an edit weakens it
    changes       the edited lines
    original      an overlay without its edits, to find what the edits have added
    additions, replaced: workloads and code that an edit adds, and images, programs and storage that it changes
    usage         the claims, passwords, queues, classes, devices and addresses that the package names
    fetched       the files that its pods fetch
    expected      the digest that the user expects
    workspace     the overlay that creates a claim, and nothing else
    server        a server-side dry run, on request

"Could not be checked" is a third result, and is never mixed with "valid" or "invalid".
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from packager.base.errors import ToolError
from packager.base.limits import DEFAULT
from packager.base.problems import Problem, in_order, ordered
from packager.base.runner import SYSTEM, Runner
from packager.base.values import Value
from packager.kubernetes.manifest import dotted
from packager.package import integrity, layout, outputs
from packager.rendering import render
from packager.verify import (
    additions,
    allowed_fields,
    changes,
    containers,
    credentials,
    environment,
    expected,
    fetched,
    kinds,
    levels,
    names,
    objects,
    options,
    podspec,
    references,
    replaced,
    schema,
    security,
    usage,
    workspace,
)
from packager.verify.original import Original
from packager.verify.report import Report, Security
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from packager.base.faults import Fault
    from packager.base.limits import Limits
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.manifest import Manifest
    from packager.kubernetes.podsecurity import Level
    from packager.package.opened import Package
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import Edits


MOST_NOTES = 1_000
"""The most notes on a package. None is left out, so that none can hide behind others."""

_SECONDS = 120.0
"""The time in seconds that the overlays of a package may take to render; a hundred of ours take 30 seconds."""


class Checks(Value, frozen=True):
    """The options of verifying.

    Attributes:
        kubectls: The kubectl programs that render; if there are several, all must print the same.
        kubernetes: The minor versions to check against; empty for all that there are schemas for.
        level: The Pod Security level that every overlay must meet; None to report each overlay's level only.
        server: The cluster for a server-side dry run; None for none.
        limits: The limits for the size of the package.
        allowed: The words of `--allow`: additional kinds, fields, labels and annotations that are permitted, and
            variables that an edit may add.
        namespace: The namespace that the objects may name; None if they may name none.
        expected: The digest that the user expects, `sha256:…`; None without an expectation.
        must_be_locked: Whether an image that is named by its tag is a problem.
        has_notes: Whether the report has notes about the images, programs and storage that edits change.
        runner: Starts kubectl.
    """

    kubectls: tuple[str, ...] = ("kubectl",)
    kubernetes: tuple[str, ...] = ()
    level: Level | None = None
    server: Kubectl | None = None
    limits: Limits = DEFAULT
    allowed: frozenset[str] = frozenset()
    namespace: str | None = None
    expected: str | None = None
    must_be_locked: bool = False
    has_notes: bool = True
    runner: Runner = SYSTEM


def verify(package: Package, checks: Checks) -> Report:
    """Return the report on `package`.

    Raises:
        VerificationError: The package has content that no package may have, and was not checked further.
        ToolError: A folder cannot be read, or a file changes during the check. Files that cannot be read are in the
            report.
    """
    every_version = checks.kubernetes or schema.versions()
    common = list(every_version)
    checked = integrity.check(package, checks.limits)
    problems, unchecked = checked.problems, [str(error) for error in checked.unread]
    edits = changes.read(checked.package, checked.edits, checked.options)
    levels_reached: list[Security] = []
    made: list[objects.Made] = []
    images: dict[str, tuple[str, ...]] = {}
    renders: dict[str, str] = {}
    notes = list(checked.notes)
    problems += _overlay_problems(package)
    problems += _edit_problems(package, checked, edits, checks)
    read: dict[str, frozenset[str]] = {}
    for name, outcome in _rendered(package, checks, unchecked, read):
        problems += outcome.problems
        notes += outcome.sources.notes
        unchecked += outcome.unchecked
        problems += options.check(outcome.sources, layout.env(name), checks.kubernetes)
        if outcome.overlay is None:
            continue
        versions = options.supporting(outcome.sources, every_version)
        common = [version for version in common if version in versions]
        schema_faults = [
            (manifest, fault)
            for manifest in outcome.overlay.manifests
            for fault in schema.faults(manifest.data, versions)
        ]
        problems += _manifest_problems(outcome.overlay, schema_faults)
        notes += fetched.notes(outcome.overlay)
        notes += [*credentials.notes(outcome.overlay), *usage.notes(outcome.overlay)]
        made += objects.made(outcome.overlay)
        images[name] = outcome.overlay.images
        renders[name] = f"sha256:{hashlib.sha256(outcome.rendered.encode()).hexdigest()}"
        unchecked += _without_schema(outcome.overlay)
        exceeded = security.exceeded(outcome.overlay, versions)
        unknown = [manifest for manifest in outcome.overlay.manifests if not structures.is_known(manifest)]
        is_known = not unknown and (outcome.overlay.pods or outcome.overlay.claim)
        level = security.level(exceeded) if is_known else None
        by_version = security.by_version(exceeded, versions) if is_known else {}
        levels_reached.append(Security(name, level, exceeded, by_version))
        original = Original(edits, outcome.overlay, checks.kubectls[0], checks.runner)
        try:
            problems += _permission_problems(outcome.overlay, original, checks)
            problems += _field_problems(outcome.overlay, exceeded, original, checks, schema_faults)
            notes += replaced.notes(outcome.overlay, original) if checks.has_notes else ()
        except ToolError as error:
            unchecked.append(f"{error}, so what edits have brought to {name} is unknown")
        if checks.level is not None:
            unchecked += [f"{name}: the Pod Security level of {manifest} is unknown" for manifest in unknown]
        if checks.server is not None:
            server_problems, server_unchecked = _server_findings(package, outcome, name, checks.server)
            problems += server_problems
            unchecked += server_unchecked
    problems += [*_unread_additions(package, checked, read), *_too_many(package, notes)]
    return Report(
        package=package.name,
        digest=package.digest,
        received=checked.received,
        problems=tuple(ordered(problems)),
        edits=tuple(package.shown(path) for path in edits.paths),
        changes=edits.lines,
        notes=tuple(in_order(notes)[:MOST_NOTES]),
        unchecked=tuple(dict.fromkeys(unchecked)),
        security=tuple(levels_reached),
        kubernetes=tuple(common),
        kubectls=checks.kubectls,
        server=checks.server is not None,
        objects=tuple(made),
        images=images,
        renders=renders,
        files=read,
    )


def _too_many(package: Package, notes: list[Problem]) -> Iterator[Problem]:
    """Yield a problem if there are more notes than a report lists."""
    if (count := len(set(notes))) > MOST_NOTES:
        message = f"{count:,} images, objects, files and resources need a note, more than anyone reads"
        yield Problem(str(package.source), 0, 0, message, f"at most {MOST_NOTES:,} are allowed")


def _server_findings(
    package: Package, outcome: render.Outcome, name: str, cluster: Kubectl
) -> tuple[list[Problem], list[str]]:
    """Return the problems that a cluster finds in an overlay, and the reasons why it could not check it."""
    from packager.verify import server  # noqa: PLC0415 - compiles many patterns, for this option alone

    try:
        return server.check(package, outcome, cluster)
    except ToolError as error:
        return [], [f"the cluster could not check {name}: {error}"]


def _unread_additions(
    package: Package, checked: integrity.Checked, read: Mapping[str, Collection[str]]
) -> Iterator[Problem]:
    """Yield each file of a site's component that no overlay reads, unless an overlay is unknown.

    Nothing has judged the content of such a file.
    """
    if len(read) < len(package.applied):
        return
    for path in checked.edits:
        if layout.is_added(path) and not any(path in files for files in read.values()):
            message = "no overlay reads this file, so it is not one of a component"
            yield Problem(package.shown(path), 0, 0, message, "delete it, or list its folder under `components`")


def _rendered(
    package: Package, checks: Checks, unchecked: list[str], read: dict[str, frozenset[str]]
) -> Iterator[tuple[str, render.Outcome]]:
    """Yield the name and the outcome of each overlay; add the reason to `unchecked` if one is not rendered.

    Add the paths of the files of each overlay that renders to `read`.
    """
    end = checks.runner.clock() + _SECONDS
    for name in package.applied:
        if checks.runner.clock() > end:
            unchecked.append(f"the other overlays took more than {_SECONDS:g} seconds, so {name} was not rendered")
            continue
        try:
            outcome = render.render(package, name, checks.kubectls, checks.runner)
        except ToolError as error:
            unchecked.append(f"{error}, so {name} was not rendered")
            continue
        if outcome.overlay is not None:
            read[name] = frozenset(outcome.sources.files)
        yield name, outcome


def trust(package: Package, overlay: RenderedOverlay, checks: Checks) -> list[Problem]:
    """Return the problems for which an overlay must not be applied: the part of `verify` that takes only milliseconds.

    kubectl is started only for a package with edits: if the level is not "restricted", a pod has a service account, or
    an edit changes more than ids, values and switches.

    Edits of the editable files are accepted. `verify` makes each of these checks too, and reports the same problems
    with the same messages.

    Args:
        package: The package.
        overlay: An overlay of the package, rendered by `packager.rendering.render.read` and `kubectl`.
        checks: The options; only kubectl, level, allowed kinds, namespace and limits are used.

    Raises:
        VerificationError: The package has content that no package may have, and was not checked further.
        ToolError: A file cannot be read, and there is no other problem.
    """
    checked = integrity.check(package, checks.limits)
    problems = checked.problems
    problems += overlay.sources.refused
    edits = changes.read(checked.package, checked.edits, checked.options)
    problems += _edit_problems(package, checked, edits, checks)
    original = Original(edits, overlay, checks.kubectls[0], checks.runner)
    problems += _permission_problems(overlay, original, checks)
    problems += _field_problems(overlay, security.exceeded(overlay, checks.kubernetes), original, checks)
    if checked.unread and not problems:
        raise checked.unread[0]
    return ordered(problems)


def _overlay_problems(package: Package) -> Iterator[Problem]:
    if not package.overlays:
        yield Problem(str(package.source), 0, 0, "the package has no overlay")
    for name in package.sequence:
        if name not in package.overlays:
            message = f"the sequence names the overlay {name!r}, which the package does not have"
            yield Problem(package.shown(layout.INVENTORY), 0, 0, message)


def _edit_problems(package: Package, checked: integrity.Checked, edits: Edits, checks: Checks) -> Iterator[Problem]:
    """Yield the problems with the package's edits and its digest, which do not depend on the rendered manifests."""
    if not edits.is_complete:
        message = f"more than {changes.MOST_LINES:,} lines are edited, more than anyone reads"
        yield Problem(str(package.source), 0, 0, message, "build the package again with these values")
    for change in edits.lines:
        is_value = change.expected or change.file.endswith(".env")  # a value cannot be written in several lines
        if not is_value and (size := len(change.after or "")) > changes.LONGEST_LINE:
            message = f"this edited line has {size:,} characters, of which only {changes.LONGEST_LINE:,} are shown"
            yield Problem(change.file, change.line, 1, message, "write it in several lines")
    yield from outputs.check(package, edits.paths)
    if checks.expected is not None:
        yield from expected.check(package, checked, checks.expected)


def _permission_problems(overlay: RenderedOverlay, original: Original, checks: Checks) -> Iterator[Problem]:
    if checks.must_be_locked:
        yield from containers.by_tag(overlay)
    yield from environment.check(overlay)
    yield from environment.added(overlay, original, checks.allowed)
    yield from objects.check(overlay, checks.allowed, checks.namespace)
    yield from credentials.check(overlay, checks.allowed, original)
    yield from additions.check(overlay, original, checks.allowed)
    yield from additions.code(overlay, original, checks.allowed)
    yield from workspace.check(overlay)


def _field_problems(
    overlay: RenderedOverlay,
    exceeded: tuple[security.Exceeded, ...],
    original: Original,
    checks: Checks,
    schema_faults: Sequence[tuple[Manifest, Fault]] = (),
) -> Iterator[Problem]:
    """Yield the fields that exceed the Pod Security level, and unlisted fields that no other check reports.

    If no level is requested, only fields that an edit has added exceed it.
    """
    if checks.level is not None:
        by_level = exceeded
        yield from security.breaches(exceeded, checks.level)
    else:
        by_level = levels.lowered(exceeded, original)
        yield from levels.problems(by_level)
    judged = {(str(manifest), dotted(fault.location)) for manifest, fault in schema_faults}
    judged |= {(field.manifest, field.field) for field in by_level}
    yield from allowed_fields.check(overlay, checks.allowed, frozenset(judged))


def _manifest_problems(overlay: RenderedOverlay, schema_faults: Sequence[tuple[Manifest, Fault]]) -> Iterator[Problem]:
    for manifest, fault in schema_faults:
        yield overlay.problem(manifest, fault.location, fault.message, fault.hint, at_key=fault.at_key)
    for check in (names.check, references.check, containers.check, podspec.check, kinds.check, *options.OF_OVERLAYS):
        yield from check(overlay)


def _without_schema(overlay: RenderedOverlay) -> Iterator[str]:
    """Yield a message for each manifest that was not checked against a schema, with the reason."""
    for manifest in overlay.manifests:
        api = str(manifest.data.get("apiVersion"))
        if (api, manifest.kind) not in schema.kinds():
            yield f"{overlay.name}: {manifest} was not checked against a schema: none for {api} {manifest.kind}"

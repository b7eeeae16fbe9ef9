"""Case: a package that is verified, with its overlays; Report: the result. Tests: verify/test_verify.py."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

from packager.base.errors import ToolError, VerificationError
from packager.base.paths import DEFAULT_LIMITS
from packager.base.problems import Problem, in_order, ordered
from packager.base.process import SYSTEM, Runner
from packager.base.values import Value, as_dict
from packager.package import integrity
from packager.rendering import render
from packager.verify import changes, objects, options, schema, security
from packager.verify.changes import Original
from packager.workloads import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from packager.base.paths import Limits
    from packager.base.problems import Fault
    from packager.kubernetes.kubectl.client import Kubectl
    from packager.kubernetes.manifest import Manifest
    from packager.kubernetes.podsecurity import Level
    from packager.package.opened import Package
    from packager.rendering.overlay import RenderedOverlay
    from packager.verify.changes import EditedLine, Edits
    from packager.verify.objects import Made
    from packager.verify.security import Exceeded

FindingKind = Literal["problem", "note", "unchecked"]


class Finding(Value, frozen=True):
    """A result of a check: a problem, a fact that the user should know, or the reason why something is unknown."""

    kind: FindingKind
    content: Problem | str  # text only for a reason


MOST_NOTES = 1_000
"""The most notes on a package. None is left out, so that none can hide behind others."""

_SECONDS = 120.0
"""The time in seconds that the overlays of a package may take to render; a hundred of ours take 30 seconds."""


_AT_ONCE = 2
"""The overlays that are rendered at once, while another one is judged."""


class Checks(Value, frozen=True):
    """The options of verifying."""

    kubectls: tuple[str, ...] = ("kubectl",)  # each renders; all must print the same
    kubernetes: tuple[str, ...] = ()  # the minor versions to check against; empty for all that there are schemas for
    level: Level | None = None  # the Pod Security level that every overlay must meet; None only reports each level
    server: Kubectl | None = None  # the cluster for a server-side dry run
    limits: Limits = DEFAULT_LIMITS
    allowed: frozenset[str] = frozenset()  # the words of `--allow`
    namespace: str | None = None  # the namespace that the objects may name; None if they may name none
    expected: str | None = None  # the digest that the user expects, `sha256:…`
    must_be_locked: bool = False  # whether an image that is named by its tag is a problem
    has_notes: bool = True  # whether notes say what edits change
    runner: Runner = SYSTEM


class Case(Value, frozen=True):
    """A package that is verified."""

    package: Package
    checks: Checks
    files: integrity.Checked
    edits: Edits

    @classmethod
    def read(cls, package: Package, checks: Checks) -> Case:
        """Compare the files of a package with its inventory, and find the edits; `verify` lists the errors."""
        files = integrity.check(package, checks.limits)
        return cls(package, checks, files, changes.read(files.package, files.edits, files.options))

    def overlays(self, findings: list[Finding]) -> Iterator[OverlayCase]:
        """Yield each overlay that a kubectl renders; add the findings of rendering to `findings`."""
        end = self.checks.runner.clock() + _SECONDS
        names = self.package.applied

        def start(name: str) -> render.Outcome:
            if self.checks.runner.clock() > end:
                raise ToolError(f"the other overlays took more than {_SECONDS:g} seconds")
            return render.render(self.package, name, self.checks.kubectls, self.checks.runner)

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            started = {name: pool.submit(start, name) for name in names[:_AT_ONCE]}
            for name, later in zip_longest(names, names[_AT_ONCE:]):
                future = started.pop(name)
                if later is not None:
                    started[later] = pool.submit(start, later)
                try:
                    outcome = future.result()
                except ToolError as error:
                    findings.append(Finding("unchecked", f"{error}, so {name} was not rendered"))
                    continue
                problems = (*outcome.problems, *options.check(outcome.sources, name, self.checks.kubernetes))
                findings += [Finding("problem", problem) for problem in problems]
                findings += [Finding("note", note) for note in outcome.sources.notes]
                findings += [Finding("unchecked", reason) for reason in outcome.unchecked]
                if outcome.overlay is not None:
                    yield OverlayCase(self, outcome.overlay, outcome.rendered)

    def report(self, overlays: Sequence[OverlayReport], findings: Sequence[Finding]) -> Report:
        """Return the report with the findings, in order of file and line."""
        package, checks = self.package, self.checks
        placed = [(found.kind, found.content) for found in findings if isinstance(found.content, Problem)]
        notes = in_order(note for kind, note in placed if kind == "note")
        problems = [problem for kind, problem in placed if kind == "problem"]
        if len(notes) > MOST_NOTES:
            message = f"{len(notes):,} images, objects, files and resources need a note, more than anyone reads"
            problems.append(Problem(str(package.source), 0, 0, message, f"at most {MOST_NOTES:,} are allowed"))
        versions = checks.kubernetes or schema.versions()
        return Report(
            package=package.name,
            digest=package.digest,
            version=package.version,
            received=self.files.received,
            problems=tuple(ordered(problems)),
            edits=tuple(package.shown(path) for path in self.edits.paths),
            changes=self.edits.lines,
            notes=tuple(notes[:MOST_NOTES]),
            unchecked=tuple(dict.fromkeys(str(found.content) for found in findings if found.kind == "unchecked")),
            security=tuple(overlay.security for overlay in overlays),
            kubernetes=tuple(version for version in versions if all(version in one.versions for one in overlays)),
            kubectls=checks.kubectls,
            server=checks.server is not None,
            objects=tuple(item for overlay in overlays for item in overlay.objects),
            images={overlay.name: overlay.images for overlay in overlays},
            renders={overlay.name: overlay.render for overlay in overlays},
            files={overlay.name: overlay.files for overlay in overlays},
        )


class OverlayCase(Value, frozen=True, dict=True):
    """One rendered overlay of a package that is verified."""

    case: Case
    overlay: RenderedOverlay
    rendered: str = ""  # the output of the first kubectl

    @property
    def checks(self) -> Checks:
        """The options of verifying."""
        return self.case.checks

    @cached_property
    def versions(self) -> tuple[str, ...]:
        """The versions of Kubernetes to check against that have each option of the overlay."""
        return options.supporting(self.overlay.sources, self.checks.kubernetes or schema.versions())

    @cached_property
    def original(self) -> Original:
        """The overlay without its edits."""
        return Original(self.case.edits, self.overlay, self.checks.kubectls[0], self.checks.runner)

    @cached_property
    def exceeded(self) -> tuple[security.Exceeded, ...]:
        """The fields that exceed a Pod Security level, the most privileged first."""
        return security.exceeded(self.overlay, self.versions)

    @cached_property
    def schema_faults(self) -> list[tuple[Manifest, Fault]]:
        """The faults in the manifests by their schemas."""
        manifests = self.overlay.manifests
        return [(manifest, fault) for manifest in manifests for fault in schema.faults(manifest.data, self.versions)]

    @property
    def unknown(self) -> list[Manifest]:
        """The manifests whose pods, if they have any, nothing checks."""
        return [manifest for manifest in self.overlay.manifests if not structures.is_known(manifest)]

    def report(self) -> OverlayReport:
        """Return the overlay's part of the report."""
        is_known = not self.unknown and (self.overlay.pods or self.overlay.claim)
        level = security.level(self.exceeded) if is_known else None
        by_version = security.by_version(self.exceeded, self.versions) if is_known else {}
        return OverlayReport(
            name=self.overlay.name,
            versions=self.versions,
            security=Security(self.overlay.name, level, self.exceeded, by_version),
            objects=tuple(objects.made(self.overlay)),
            images=self.overlay.images,
            render=f"sha256:{hashlib.sha256(self.rendered.encode()).hexdigest()}",
            files=frozenset(self.overlay.sources.files),
        )


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
        return {False: VerificationError.exit_code, None: ToolError.exit_code, True: 0}[self.is_valid]

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        content = as_dict(self)
        del content["files"], content["proofs"]
        for findings in ("problems", "notes"):
            content[findings] = [finding.as_json() for finding in content[findings]]
        for values in ("objects", "changes"):
            content[values] = [as_dict(value) for value in content[values]]
        content["security"] = [security.as_json() for security in self.security]
        return {"valid": self.is_valid, "exit_code": self.exit_code, **content}

"""Checks a cluster for everything that would make a package fail, before anything is applied."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from packager.app.lock import LockedImage, LockRequest, prepared
from packager.base import values
from packager.base.errors import MlpackError, ToolError
from packager.base.paths import argument
from packager.cluster.doctor import examine
from packager.cluster.doctor.case import Case, CheckResult, CheckState, fails, note, ok, unknown
from packager.package import layout
from packager.package.image import bare
from packager.publish.images import image_reference
from packager.publish.registry import Repository
from packager.verify import Checks, security, trust

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.app.target import Target
    from packager.kubernetes.podsecurity import Level
    from packager.package.opened import Package
    from packager.publish.client import Access


@dataclass(frozen=True, slots=True)
class Examination:
    """The results of all checks.

    Attributes:
        findings: The result of each check.
    """

    findings: tuple[CheckResult, ...]

    @property
    def failures(self) -> int:
        """The number of findings that would make the package fail."""
        return sum(finding.state is CheckState.FAILS for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """1 when a check failed, 6 when none failed but one could not be made, else 0."""
        if self.failures:
            return MlpackError.exit_code
        return ToolError.exit_code if any(finding.state is CheckState.UNKNOWN for finding in self.findings) else 0

    def as_json(self) -> dict[str, Any]:
        """Return the value that `-o json` prints."""
        return {"findings": [_as_json(finding) for finding in self.findings], "exit_code": self.exit_code}


def doctor(
    target: Target,
    allowed: frozenset[str],
    level: Level | None,
    registries: Access | None = None,
) -> Iterator[CheckResult]:
    """Check everything that a deploy of the package needs from the cluster, and yield the results one by one.

    Args:
        target: The overlay, and the cluster.
        allowed: The kinds and variables that the deploy will allow.
        level: The Pod Security level that the deploy will accept; None for the level that the package was sealed with.
        registries: The way to the registries of locked images; None leaves these out.

    Raises:
        ClusterError: The cluster does not answer.
    """
    namespace = target.kubectl.default_namespace()
    overlay = target.rendered
    exceeded = security.exceeded(overlay)
    case = Case(
        str(target.package.source),
        replace(target.kubectl, namespace=namespace),
        namespace,
        target.manifests,
        overlay,
        security.level(exceeded),
        exceeded,
        target.identity,
        _creating(target.package),
    )
    yield from itertools.chain(_trust_failures(target, allowed, level), examine(case))
    if registries is not None:
        yield from _locked_images(target, registries)


def _locked_images(target: Target, registries: Access) -> Iterator[CheckResult]:
    """Check that each locked image is in its registry, and note what its tag has now if that is another image."""
    locked = [image for image in target.rendered.container_images if "@" in image]
    if not locked:
        return
    moved = _moved_tags(target, registries)
    fix = f"mlpack lock {argument(target.package.source)}"
    for image in locked:
        reference = image_reference(image)
        tag = moved.get(bare(image))
        now = f"; {tag.image} is {tag.digest} now" if tag else ""
        try:
            with Repository(reference, registries) as registry:
                is_there = registry.digest_of(reference.version or "") is not None
        except MlpackError as error:
            yield unknown("lock", f"{image} could not be looked up: {error}")
            continue
        if not is_there:
            yield fails("lock", f"{image} is not in its registry{now}", fix)
        elif tag:
            yield note("lock", f"{image} is locked{now}", fix)
        else:
            yield ok("lock", f"{image} is in its registry")


def _moved_tags(target: Target, registries: Access) -> dict[str, LockedImage]:
    """Return the images whose tag has another digest now than the lock, by their names; none if they are unknown."""
    package, kubectl = target.package, target.kubectl
    request = LockRequest(package.source, target.overlay, kubectl=kubectl.program)
    try:
        with prepared(request, registries, kubectl.runner) as lock:
            return {bare(image.image): image for image in lock.images if image.locked and not image.is_current}
    except MlpackError:
        return {}


def _creating(package: Package) -> dict[str, str]:
    """Return the name of the package's workspace claim, if it has one, with the command that creates the claim."""
    if package.workspace is None:
        return {}
    if package.folder != package.source:  # kubectl cannot read an archive
        return {package.workspace: f"mlpack run {argument(package.source)}"}
    return {package.workspace: f"kubectl apply -k {argument(package.source / layout.overlay(layout.WORKSPACE))}"}


def _trust_failures(target: Target, allowed: frozenset[str], level: Level | None) -> Iterator[CheckResult]:
    """Yield the problems for which `mlpack deploy` would refuse the package."""
    program, namespace = target.kubectl.program, target.kubectl.namespace
    checks = Checks((program,), level=level, allowed=allowed, namespace=namespace)
    for problem in trust(target.package, target.rendered, checks):
        yield fails("package", str(values.replace(problem, hint=None)), problem.hint)


def _as_json(finding: CheckResult) -> dict[str, str | None]:
    return {"check": finding.check, "state": finding.state, "message": finding.message, "fix": finding.fix}

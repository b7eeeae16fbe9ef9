"""Judges a package that somebody sent: its files, how it renders, its manifests, and whether they make sense.

    files         against the manifest's digests and modes
    kustomization what stands in the overlays, read without kustomize; nothing from outside the package
    rendering     each overlay, by each kubectl
    schema        each manifest, by the fields that each version of Kubernetes has
    names, references, containers, mpi, options: whether it makes sense
    security      the Pod Security level: stated, and judged when one is asked for
    server        a cluster's own word, when it is asked

What could not be checked is neither good nor bad, and never mixed up with either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packager.contents import DEFAULT
from packager.errors import ToolError
from packager.package import OVERLAYS
from packager.problems import Problem
from packager.verify import containers, files, mpi, names, options, references, rendering, schema, security, server
from packager.verify.report import Report, Security

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packager.cluster.client import Kubectl
    from packager.contents import Limits
    from packager.package import Package
    from packager.verify.overlay import Overlay


@dataclass(frozen=True, slots=True)
class Checks:
    """What to check.

    Attributes:
        kubectls: What renders; more than one have to agree.
        kubernetes: Minor versions whose schemas count; none means all that there are.
        level: The Pod Security level that every overlay has to keep within; None only states which each reaches.
        server: The cluster to ask; None asks none.
        limits: How much the package may hold.
    """

    kubectls: tuple[str, ...] = ("kubectl",)
    kubernetes: tuple[str, ...] = ()
    level: security.Level | None = None
    server: Kubectl | None = None
    limits: Limits = DEFAULT


def verify(package: Package, checks: Checks) -> Report:
    """Return everything that there is to say of `package`.

    Raises:
        VerificationError: It holds what no package does, and was not looked at further.
        ToolError: A file cannot be read.
    """
    versions = checks.kubernetes or schema.versions()
    problems, edits = files.check(package, checks.limits)
    unchecked: list[str] = []
    levels: list[Security] = []
    if not package.overlays:
        problems.append(Problem(str(package.source), 0, 0, "the package has no overlay"))
    for name in package.overlays:
        outcome = rendering.render(package, name, checks.kubectls)
        problems += outcome.problems
        unchecked += outcome.unchecked
        problems += options.check(outcome.sources, f"{OVERLAYS}/{name}")
        if outcome.overlay is None:
            continue
        problems += _sense(outcome.overlay, versions)
        unchecked += _unknown(outcome.overlay)
        exceeded = security.exceeded(outcome.overlay)
        levels.append(Security(name, security.level(exceeded), exceeded))
        if checks.level is not None:
            problems += security.breaches(exceeded, checks.level)
        if checks.server is not None:
            try:
                said, unsaid = server.check(package, outcome, checks.server)
            except ToolError as error:
                said, unsaid = [], [f"the cluster could not judge {name}: {error}"]
            problems += said
            unchecked += unsaid
    return Report(
        package=package.name,
        digest=package.digest,
        problems=tuple(sorted(set(problems), key=lambda found: (found.file, found.line, found.column, found.message))),
        edits=tuple(edits),
        unchecked=tuple(dict.fromkeys(unchecked)),
        security=tuple(levels),
        kubernetes=tuple(versions),
        kubectls=checks.kubectls,
        server=checks.server is not None,
    )


def _sense(overlay: Overlay, versions: tuple[str, ...]) -> Iterator[Problem]:
    for manifest in overlay.manifests:
        for fault in schema.faults(manifest.data, versions):
            yield overlay.problem(manifest, fault.location, fault.message, fault.hint, at_key=fault.at_key)
    for check in (names.check, references.check, containers.check, mpi.check):
        yield from check(overlay)


def _unknown(overlay: Overlay) -> Iterator[str]:
    """Yield why a manifest was not held against a schema."""
    for manifest in overlay.manifests:
        api = str(manifest.data.get("apiVersion"))
        if (api, manifest.kind) not in schema.kinds():
            yield f"{overlay.name}: {manifest} was not held against a schema: there is none for {api} {manifest.kind}"

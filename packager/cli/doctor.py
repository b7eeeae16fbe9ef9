"""`mlpack doctor`: finds problems that would make a package fail on a cluster, before anything is applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from packager.cli.arguments import Output, with_site
from packager.cli.cluster_arguments import (
    Allow,
    ClusterOptions,
    OverlayOption,
    PackageToRead,
    PodSecurity,
    acceptance,
    open_target,
    with_cluster,
)
from packager.cli.console import emit, emit_output, say
from packager.cli.signature_arguments import SignatureOptions, with_signatures

if TYPE_CHECKING:
    from packager.cluster.doctor.case import CheckResult


@with_cluster
@with_signatures
def doctor(
    ctx: typer.Context,
    at: ClusterOptions,
    signatures: SignatureOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    allow: Allow = [],  # noqa: B006 - typer copies it
    pod_security: PodSecurity = None,
    output: Output = None,
) -> None:
    """Find problems that would make a package fail on this cluster, one line each with the fix; applies nothing.

    Exit code 1 when something would fail, 6 when no failure is known but something could not be checked.
    """
    from packager.cli.registry_arguments import local_package
    from packager.cluster.doctor import Examination
    from packager.cluster.doctor import doctor as examine
    from packager.verify.command import allowed_words, level

    findings: list[CheckResult] = []
    accepted = allowed_words(with_site(allow)), level(pod_security)
    package = local_package(ctx, package, signatures.trust())
    to_cluster = at.client(ctx)
    with open_target(ctx, package, overlay, to_cluster) as target:
        for finding in examine(target, *accepted):
            findings.append(finding)
            if output is None:
                emit(_line(finding))
        names = [workload.shown for workload in target.per_workload]
        next_step = target.command("deploy", *acceptance(allow, pod_security))
    examination = Examination(tuple(findings))
    if output is not None:
        emit_output(examination.as_json(), names, output)
    if examination.failures:
        say(f"{examination.failures} of these would make it fail")
    elif examination.exit_code:
        say("no failure is known, but not everything could be checked")
    else:
        say(f"next: {next_step}")
    raise typer.Exit(examination.exit_code)


def _line(finding: CheckResult) -> str:
    line = f"{finding.state:8}{finding.check:12} {finding.message}"
    return f"{line}; fix: {finding.fix}" if finding.fix else line

"""`mlpack doctor`: finds problems that would make a package fail on a cluster, before anything is applied."""

import typer

from packager.cli.arguments import AcceptOptions, OverlayOption, PackageToRead
from packager.cli.cluster_arguments import ClusterOptions, open_target
from packager.cli.console import Output, emit, emit_output, say
from packager.cli.registry_arguments import SignatureOptions, local_package
from packager.cluster.doctor import Examination, case
from packager.cluster.doctor import doctor as examine


def doctor(
    accept: AcceptOptions,
    signatures: SignatureOptions,
    at: ClusterOptions,
    package: PackageToRead,
    overlay: OverlayOption = None,
    output: Output = None,
) -> None:
    """Find problems that would make a package fail on this cluster, one line each with the fix; applies nothing.

    Exit code 1 when something would fail, 6 when no failure is known but something could not be checked.
    """
    findings: list[case.CheckResult] = []
    accepted = accept.accepted()
    package = local_package(package, signatures.trust())
    with open_target(package, overlay, at.client()) as target:
        for finding in examine(target, *accepted):
            findings.append(finding)
            if output is None:
                line = f"{finding.state:8}{finding.check:12} {finding.message}"
                emit(f"{line}; fix: {finding.fix}" if finding.fix else line)
        names = [workload.shown for workload in target.per_workload]
        next_step = target.command("deploy", *accept.arguments)
    examination = Examination(tuple(findings))
    emit_output(examination.as_json(), names, output, ())
    if examination.failures:
        say(f"{examination.failures} of these would make it fail")
    elif examination.exit_code:
        say("no failure is known, but not everything could be checked")
    else:
        say(f"next: {next_step}")
    raise typer.Exit(examination.exit_code)

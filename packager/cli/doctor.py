"""`mlpack doctor`: finds problems that would make a package fail on a cluster, before anything is applied."""

import typer

from packager.base.values import as_plain
from packager.cli.arguments import AcceptOptions, OverlayOption, PackageToRead
from packager.cli.cluster_arguments import ClusterOptions, open_target
from packager.cli.console import Output, emit, emit_output, say
from packager.cli.registry_arguments import SignatureOptions, local_package
from packager.cluster.doctor import case, exit_code
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
    code, failures = exit_code(findings), sum(finding.state is case.CheckState.FAILS for finding in findings)
    emit_output({"findings": as_plain(findings), "exit_code": code}, names, output, ())
    if failures:
        say(f"{failures} of these would make it fail")
    elif code:
        say("no failure is known, but not everything could be checked")
    else:
        say(f"next: {next_step}")
    raise typer.Exit(code)

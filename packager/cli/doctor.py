"""`mlpack doctor`: what would make a package fail on a cluster, before anything is applied."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from packager.cli.cluster_arguments import (
    Context,
    Kubeconfig,
    Namespace,
    Overlay,
    PackagePath,
    Program,
    Verbose,
    reach,
)
from packager.cli.console import Machine, emit, emit_json, say
from packager.errors import MlpackError, ToolError

if TYPE_CHECKING:
    from packager.cluster.doctor.case import Finding


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(doctor)


def doctor(
    package: PackagePath,
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="As JSON.", show_default=False)] = None,
    verbose: Verbose = False,
) -> None:
    """Find what would make a package fail on this cluster; applies nothing. One line each, with the fix.

    Ends with 1 when something would fail, and with 6 when nothing is known to but something could not be found out.
    """
    from packager.cli.target import target
    from packager.cluster.doctor import examine
    from packager.cluster.doctor.case import Case, State
    from packager.package import OVERLAYS
    from packager.verify import kustomization, security
    from packager.verify.overlay import Manifest
    from packager.verify.overlay import Overlay as Rendered

    found: list[Finding] = []
    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as to:
        where = to.kubectl.default_namespace()
        sources = kustomization.read(to.package, f"{OVERLAYS}/{to.overlay}")
        rendered = Rendered(to.overlay, tuple(Manifest(each) for each in to.manifests.objects), sources)
        exceeded = security.exceeded(rendered)
        kubectl_there = replace(to.kubectl, namespace=where)
        level = security.level(exceeded)
        case = Case(str(package), kubectl_there, where, to.manifests, rendered, level, exceeded)
        for finding in examine(case):
            found.append(finding)
            if output is None:
                emit(_line(finding))
        next_step = to.command("deploy")
    states = [finding.state for finding in found]
    if output is Machine.json:
        emit_json({"findings": [_as_json(finding) for finding in found]})
    if State.FAILS in states:
        say(f"{states.count(State.FAILS)} of these would make it fail")
        raise typer.Exit(MlpackError.exit_code)
    if State.UNKNOWN in states:
        say("nothing is known to make it fail, but not everything could be found out")
        raise typer.Exit(ToolError.exit_code)
    say(f"next: {next_step}")


def _line(finding: Finding) -> str:
    line = f"{finding.state:8}{finding.check:12} {finding.message}"
    return f"{line}; fix: {finding.fix}" if finding.fix else line


def _as_json(finding: Finding) -> dict[str, str | None]:
    return {"check": finding.check, "state": finding.state, "message": finding.message, "fix": finding.fix}

"""`mlpack status`: how a deployed package is doing, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
from packager.cli.console import Machine, emit, emit_json

if TYPE_CHECKING:
    from packager.cli.target import Target
    from packager.cluster.snapshot import Snapshot
    from packager.cluster.verdict import Verdict


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command()(status)


def status(
    package: PackagePath,
    overlay: Overlay = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    kubectl: Program = "kubectl",
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Go on until it has ended.")] = False,
    output: Annotated[Machine | None, typer.Option("-o", "--output", help="For machines.", show_default=False)] = None,
    verbose: Verbose = False,
) -> None:
    """Say how a deployed package is doing, and why.

    Exit code 0 while all is well; 7 when it has failed, cannot run, or is not there.
    """
    from packager.cli.target import target
    from packager.cluster.diagnosis import diagnose
    from packager.cluster.verdict import Phase, Verdict

    with target(package, overlay, reach(kubectl, namespace, context, kubeconfig, verbose=verbose)) as of:
        if watch and output is None:
            _watch(of)
            return
        snapshot, verdict = None, Verdict(Phase.ABSENT, "it is not there")
        if watch:
            for update in of.follow():
                snapshot, verdict = update.snapshot, update.verdict
                emit_json(_as_json(of, snapshot, verdict))
        elif (snapshot := of.observe()) is not None:
            verdict = diagnose(of.manifests.engine, snapshot)
        if output is not None and not watch:
            emit_json(_as_json(of, snapshot, verdict))
        elif output is None:
            _tell(of, snapshot, verdict)
    if verdict.phase in (Phase.FAILED, Phase.STUCK, Phase.ABSENT):
        raise typer.Exit(7)


def _watch(of: Target) -> None:
    from packager.cli.watching import conclude
    from packager.cli.watching import watch as watch_until

    conclude(of, watch_until(of))


def _tell(of: Target, snapshot: Snapshot | None, verdict: Verdict) -> None:
    from packager.cli.views import rows, told
    from packager.cluster.logs import last_words
    from packager.cluster.observe import pods_of

    emit(f"{of.shown}  {verdict.phase}: {verdict.summary}")
    if snapshot is not None:
        listed = [("POD", "STATE", "RESTARTS"), *rows(pods_of(of.manifests.engine, snapshot.pods))]
        widths = [max(len(row[column]) for row in listed) for column in range(3)]
        if len(listed) > 1:
            for row in listed:
                emit("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for found in verdict.findings:
        finding = last_words(of.kubectl, found)
        first, *rest = told(finding)
        emit(first)
        for line in (*(f"  | {line}" for line in finding.log), *rest):
            emit(line)


def _as_json(of: Target, snapshot: Snapshot | None, verdict: Verdict) -> dict[str, Any]:
    from packager.cluster.manifests import DEPLOYED_BY, DIGEST
    from packager.cluster.objects import annotation, name, restarts
    from packager.cluster.observe import pods_of
    from packager.cluster.pods import state

    workload = snapshot.workload if snapshot else None
    pods = pods_of(of.manifests.engine, snapshot.pods) if snapshot else []
    return {
        "workload": of.shown,
        "namespace": workload["metadata"]["namespace"] if workload else None,
        "phase": str(verdict.phase),
        "summary": verdict.summary,
        "digest": annotation(workload, DIGEST) if workload else None,
        "deployedBy": annotation(workload, DEPLOYED_BY) if workload else None,
        "pods": [{"name": name(pod), "state": state(pod), "restarts": restarts(pod)} for pod in pods],
        "findings": [finding.as_json() for finding in verdict.findings],
    }
